"""Keys, texts and the clipboard of a person in front of the studio."""

import json

READY = "document.documentElement.dataset.ready === 'yes'"
CODES = {"Enter": 13, "Tab": 9, "Escape": 27, "F2": 113, "Delete": 46, "ArrowUp": 38,
         "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}  # fmt: skip


def press(browser, key, *, control=False, shift=False, alt=False):
    """One key, as the keyboard sends it."""
    held = (1 if alt else 0) + (2 if control else 0) + (8 if shift else 0)
    code = CODES.get(key, ord(key.upper()) if len(key) == 1 else 0)
    text = {"text": key} if len(key) == 1 and not control and not alt else {}
    text = {"text": "\r"} if key == "Enter" else text
    about = {"key": key, "modifiers": held, "windowsVirtualKeyCode": code}
    browser.call("Input.dispatchKeyEvent", type="keyDown", **about, **text)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **about)


def type_text(browser, text):
    """The first letter as a key, so that a cell opens; the rest as typed into it."""
    press(browser, text[0])
    if text[1:]:
        browser.call("Input.insertText", text=text[1:])


def compose(browser, text):
    """What an input method writes: a key that it takes for itself, then a text under way."""
    about = {"key": "Process", "windowsVirtualKeyCode": 229}
    browser.call("Input.dispatchKeyEvent", type="rawKeyDown", **about)
    for end in range(1, len(text) + 1):
        browser.call(
            "Input.imeSetComposition", text=text[:end], selectionStart=end, selectionEnd=end
        )
    browser.call("Input.insertText", text=text)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **about)


def type_row(browser, cells):
    """One rule from the active cell on, Tab after each cell."""
    for cell in cells:
        if cell:
            type_text(browser, cell)
        press(browser, "Tab")


def paste(browser, text):
    """What a spreadsheet program puts on the clipboard, pasted into the grid."""
    script = """(() => { const data = new DataTransfer(); data.setData('text/plain', TEXT);
        document.querySelector('.sheet').dispatchEvent(new ClipboardEvent('paste',
        {clipboardData: data, bubbles: true, cancelable: true})); return true; })()"""
    browser.ask(script.replace("TEXT", json.dumps(text)))


def copied(browser):
    """What a copy of the selection puts on the clipboard."""
    return browser.ask(
        "(() => { const data = new DataTransfer(); document.querySelector('.sheet').dispatchEvent("
        "new ClipboardEvent('copy', {clipboardData: data, bubbles: true, cancelable: true})); "
        "return data.getData('text/plain'); })()"
    )


def focus_grid(browser):
    browser.wait("document.querySelector('.sheet') !== null")
    browser.ask("document.querySelector('.sheet').focus()")


def rows_of(browser):
    """The cells of the grid as the page has them."""
    return browser.ask("document.querySelector('rule-grid').sheet.rows")


def settled(browser):
    """Wait until everything typed is kept and judged."""
    browser.wait("""import('/page/desk.js')
        .then(({desk}) => desk.turn.then(() => desk.settle()).then(() =>
        ['draft', 'clean'].includes(desk.state) && !desk.busy && !desk.pending))""")


def leave(browser):
    """Go away without the question whether what was typed last may be lost."""
    browser.ask("import('/page/desk.js').then(({desk}) => { desk.pending = null; })")
    browser.open("about:blank")
