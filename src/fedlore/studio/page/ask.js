// The one way to the studio's own service; nothing is ever asked elsewhere.

let token = "";
export const setToken = (text) => { token = text; };

export class Refused extends Error {
  constructor(status, said) {
    super(said.error || "the studio failed to answer");
    this.status = status;
    this.said = said;
  }
}

export async function ask(path, body, method = body === undefined ? "GET" : "POST") {
  const headers = { "Accept-Language": document.documentElement.lang.slice(0, 2), ...(token ? { Authorization: "Bearer " + token } : {}) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refused(0, { error: "" });
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, typeof said.error === "string" ? said : { error: said.detail?.[0]?.msg });
  return said;
}
