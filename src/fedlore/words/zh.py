"""Chinese: the same keys as `en`, and the same arguments."""

from collections.abc import Mapping, Sequence
from typing import Any

from .en import (
    SHOWN,
    Sentence,
    between_words,
    count_opinions,
    effect_words,
    number_span,
    number_text,
    round_confidence,
    show_value,
)

_CLAIMS: dict[str, str] = {
    "outside-range": "预测超出范围",
    "undefined/prediction": "“{formula}”没有值，因此不作预测",
    "undefined/lower": "“{formula}”没有值，因此下限不起作用",
    "undefined/upper": "“{formula}”没有值，因此上限不起作用",
    "unreached": "有某一行被预测为“{name}”",
    "empty-range/limits": "下限高于上限",
    "empty-range/above": "下限高于目标的上界",
    "empty-range/below": "上限低于目标的下界",
    "empty-range/error": "各范围合起来不留任何类别，该行被拒绝",
    "empty-range/first": "各范围合起来不留任何类别，以第一个为准",
    "empty-range/all": "各范围合起来不留任何类别，因此允许所有类别",
}
_STEPS: dict[str, str] = {
    "anything": "其余内容：{reason}",
    "overlap": "哪些规则重叠",
    "gaps": "是否有空缺",
    "more-gaps": "是否还有空缺",
    "empty-range": "哪些范围可能为空",
    "unreachable": "{rules} 是否会适用",
    "outside-range": "{rules} 是否始终在范围之内",
}


def _shown_by(claim: str) -> Sentence:
    def sentence(a: Mapping[str, Any]) -> str:
        row = "，".join(f"{name} = {show_value(value)}" for name, value in a["row"].items())
        return f"{_CLAIMS[claim].format_map(a)}，例如 {row}"

    return sentence


def _where(region: Mapping[str, str]) -> str:
    return " 且 ".join(f"{name} {cell}" for name, cell in region.items()) or "任意情况"


def _in_region(text: str) -> Sentence:
    return lambda a: text.format_map({**a, "where": _where(a["region"])})


def _rows(rows: Sequence[int]) -> str:
    more = f" 等 {len(rows)} 行" if len(rows) > SHOWN else " 行"
    return f"第 {'、'.join(map(str, rows[:SHOWN]))}{more}"


def _with_rows(text: str) -> Sentence:
    return lambda a: text.format_map({**a, "count": len(a["rows"]), "listed": _rows(a["rows"])})


def _example(text: str) -> Sentence:
    return lambda a: text.format_map(a) + (f"（{a['note']}）" if a["note"] else "")


_HELD = {
    "range": "此形状只在范围相同的行之间成立，网络不使用该范围",
    "prediction": "网络和答案都不使用该预测（λ 视为 0），形状在没有它时成立",
}
_SIDE = {"range": "范围", "prediction": "预测"}


def _side_of_turn(a: Mapping[str, Any]) -> str:
    return f"{a['feature']} {a['side']} {a['turn']:g} 时，" if a.get("side") else ""


def _shape_broken(a: Mapping[str, Any]) -> str:
    side, way = a["side"], ("下移", "上移") if a["sign"] < 0 else ("上移", "下移")
    did = f"没有{way[0]}" if side == "range" else f"{way[1]}了，或只在一侧有预测"
    others = "，".join(f"{name} = {value}" for name, value in a["others"].items())
    at = f"（{others}）" if others else ""
    low, high = a["low"], a["high"]
    moved = f"{a['feature']} 从 {low:g} 变到 {high:g}{at}时，{_SIDE[side]}{did}"
    return f"“{a['shape']}”，但{moved}：{_HELD[side]}"


def _soft(a: Mapping[str, Any]) -> str:
    parts = ((a["rules"], "条规则"), (a["formulas"], "个公式来源"))
    counted = "和 ".join(f"{n} {what}" for n, what in parts if n)
    return f"{counted}只在多数情况下成立：参与预测的加权，不排除任何类别，也不计入证书"


def _confidences(a: Mapping[str, Any]) -> str:
    chance = f"，偶然情况下约有 {a['by_chance']:.2g} 个" if a["wrong"] else ""
    return (
        f"检查了 {a['found']} 个置信度：{a['wrong']} 个超出数据允许的区间"
        f"（精确二项区间，95 %）{chance}"
    )


_CORRECT = "修改预测，或放宽范围"
_LIMITS = "修改上下限，或用 min、max 让一个约束另一个"
_SOURCES = "修改其中之一，或用 'empty' 说明在那里怎么办"
_GUARD = "缩小适用范围，或加以保护：where(x > 0, log(x), ...)"
_ONE_WRONG = "修改规则或公式：其中之一在那里是错的"
_LABELS = "检查这些行：标签或范围有误（训练时 outside = {policy}）"
_TRUST_LOW = "降低 trust，或去掉该预测"
_RULES = "修改规则；若示例有误则修改示例"

_OF = ("prediction", "lower", "upper")
_EMPTY = dict.fromkeys(("limits", "above", "below"), _LIMITS)
_EMPTY |= dict.fromkeys(("error", "first", "all"), _SOURCES)


def _stretches(a: Mapping[str, Any]) -> str:
    texts = []
    for since, until in a["days"]:
        texts.append(f"{f'自 {since} 起' if since else ''}{f'至 {until} 前' if until else ''}")
    return f"{'，'.join(texts)}：{a['message']}"


def _ended(a: Mapping[str, Any]) -> str:
    more = f" 等 {len(a['of'])} 条" if len(a["of"]) > 5 else ""
    return f"到 {a['day']} 已不再有效：{'、'.join(a['of'][:5])}{more}"


def _never_applied(a: Mapping[str, Any]) -> str:
    words = {"examples": "个示例", "data": "行数据", "monitored": "行监控数据"}
    seen = "、".join(f"{count} {words[kind]}" for kind, count in a["seen"].items())
    more = f" 等 {len(a['of'])} 条" if len(a["of"]) > 5 else ""
    some = "、".join(a["of"][:5])
    return f"{a['rules']} 条规则中有 {len(a['of'])} 条从未适用于 {seen}：{some}{more}"


FINDINGS: dict[str, tuple[Sentence, Sentence]] = {
    "never-applied": (_never_applied, "寻找这种规则所说的行，或问一问是否还需要它"),
    "days": (_stretches, ""),
    "date-empty": (
        "{of} 没有一天有效：它从 {since} 开始，而 {until} 起已不再有效",
        "更正这两个日期之一",
    ),
    "date-past": (_ended, "为 fedlore monitor 和以前的答案保留它，或者删除它"),
    "date-gap/table": ("自 {since} 起至 {until} 前，表中没有有效的规则", "补上空档，或有意留空"),
    "date-gap/side": (
        "自 {since} 起至 {until} 前，[{side}] 中没有任何内容有效",
        "补上空档，或有意留空",
    ),
    "run-out": ("自 {end} 起，[{side}] 中没有任何内容有效", "在那天之前写出新的规则"),
    "gave-up/stretches": ("已放弃：{all} 个时间段中只检查了前 {most} 个", "删除早已结束的规则"),
    "cell": ("{error}", ""),
    "header": ("{error}", ""),
    "source": ("{error}", ""),
    "file": ("{error}", ""),
    "data": ("{error}", ""),
    "example": ("{error}", ""),
    "size/empty": ("表中没有规则", ""),
    "size/long": ("表中的规则超过 {most} 条", ""),
    "priority/column": ("表中有 'priority' 列，而命中策略是 {policy}", ""),
    "priority/no-column": ("表中没有 'priority' 列，而命中策略是 {policy}", ""),
    "confidence/policy": ("带置信度的规则要用命中策略 {fits}，而不是 {policy}", ""),
    "cell/width": ("该行有 {cells} 个单元格，表头有 {columns} 个", ""),
    "header/outcome": (
        lambda a: (
            "必须有且只有一个结果列，"
            + "或".join(f"“{name}”" for name in a["wanted"])
            + f"，找到 {a['found']}"
        ),
        "",
    ),
    "no-effect": ("{rule} 允许所有类别，因此没有作用", "删除它，或少写几个类别"),
    "duplicate": ("{rule} 与 {before} 重复", "删除其中一条"),
    "outside-scope": (
        "{rule} 永远不适用：'{feature}' {cell} 在适用范围 {low}..{high} 之外",
        "检查数值和单位，或放宽适用范围",
    ),
    "beyond-scope": ("{rules} 中的 '{feature}' 超出其适用范围", ""),
    "same-in-float32": (
        "{one} 与 {other} 在单精度下是同一个数",
        "只用其中之一，或以 float64 保存数据",
    ),
    "beyond-bounds": (
        "{rule} 写的是“{text}”，而界限是 {lower:g} 到 {upper:g}",
        "修改规则，或在所有站点修改界限",
    ),
    "unreachable": (
        "{rule} 永远不适用：它的所有行都归 {before}",
        "把它上移，收窄前面的规则，或删除它",
    ),
    "contradiction": (_in_region("在 {where} 处，{rule} 与 {other} 说法不同"), "收窄其中一条"),
    "tie": (_in_region("在 {where} 处，{rule} 与 {other} 说法不同"), "收窄其中一条，或排定先后"),
    "overlap": (
        _in_region("结果不同的规则有 {pairs} 对重叠，先者为准：在 {where} 处 {rule} 先于 {other}"),
        "",
    ),
    "gap/predict": (
        _in_region("在 {where} 处没有规则适用；那里不作预测"),
        "补一条规则，或有意如此",
    ),
    "gap/range": (
        _in_region("在 {where} 处没有规则适用；那里允许所有类别"),
        "补一条规则，或有意如此",
    ),
    "empty-range/rules": (
        lambda a: f"在 {_where(a['region'])} 处，{'、'.join(a['rules'])} 合起来不留任何类别",
        "放宽其中之一，或收窄其条件",
    ),
    "outside-range/rules": (
        _in_region("在 {where} 处，{rule} 说 {outcome}，而 {rival} 不允许"),
        "修改其中一条规则，或收窄其条件",
    ),
    "more": ("还有 {count} 个“{of}”类的发现", ""),
    "outside-range": (_shown_by("outside-range"), _CORRECT),
    **{f"undefined/{of}": (_shown_by(f"undefined/{of}"), _GUARD) for of in _OF},
    "unreached": (
        "适用范围内没有任何一行被预测为“{name}”（{low:g} 到 {high:g}）",
        "检查各分界值和特征的单位",
    ),
    **{f"empty-range/{how}": (_shown_by(f"empty-range/{how}"), do) for how, do in _EMPTY.items()},
    "outside-range/formula": ("{rule}：预测超出范围", _ONE_WRONG),
    "empty-range/formula": ("{rule}：公式不留下它的任何数值", _ONE_WRONG),
    "unchecked": ("{model} 未在整个适用范围内检查", ""),
    "statistical": ("这里有统计范围：按其水平，偶尔会漏掉标签", ""),
    "gave-up/boxes": (
        lambda a: f"未能判定：区域太多，不知是否某处{_CLAIMS[a['about']].format_map(a)}",
        "缩小适用范围，或允许更多计算",
    ),
    "gave-up/model": (
        lambda a: (
            f"未能判定：无法查看 {a['model']} 内部，不知是否{_CLAIMS[a['about']].format_map(a)}"
        ),
        "改用规则表或公式表达",
    ),
    "gave-up/steps": (
        lambda a: f"未能判定：步骤太多，不知{_STEPS[a['about']].format_map(a)}",
        "拆分该表，或允许更多步骤",
    ),
    "gave-up/classes": ("未判定 {rules} 的预测与范围是否一致", ""),
    "gave-up/numbers": ("未判定 {rules} 与公式是否留有数值", ""),
    "soft": (_soft, ""),
    "soft-unheard": (
        "trust 为 0，因此答案不采纳任何预测，也不采纳只在多数情况下成立的规则",
        "给出 trust，或让程序选择（fedlore tune）",
    ),
    "soft-outright": (
        "预测直接指定类别之处，只在多数情况下成立的范围不会改变它",
        "给预测一个置信度，或给公式一个 spread",
    ),
    "soft-weak": (
        lambda a: (
            "{rule} 给 {classes} 个类别中的 {named} 个 {share:g}，因此{does}：平均分配为 "
            "{even:.3g}".format_map(
                {**a, "does": "等于没说" if a["share"] == a["even"] else "与所写的相反"}
            )
        ),
        "写出它成立的比例，或改写其余类别",
    ),
    "counted-twice": (
        "{rule} 与 {other} 写的类别相同，且行在其中：两者都适用时算作两个证据",
        "让较宽的在较窄的开始处结束",
    ),
    "confidence": (
        lambda a: round_confidence(
            a, "{name} 写的是 {share:g}，{rows} 行中有 {right} 行正确（{was}，{least} 到 {most}）"
        ),
        lambda a: round_confidence(a, "改为 {was}，或检查这些行"),
    ),
    "confidences": (_confidences, ""),
    "shape-kept": ("范围与预测在整个适用范围内都符合“{shape}”", ""),
    "shape-unknown": (
        lambda a: (
            f"未判定{_SIDE[a['side']]}是否在整个适用范围内符合“{a['shape']}”：{_HELD[a['side']]}"
        ),
        "",
    ),
    "shape-range": (_shape_broken, "修改范围或形状，或用 'where' 限制形状"),
    "shape-prediction": (_shape_broken, "修改预测或形状，或用 'where' 限制形状"),
    "shape-data": (
        lambda a: (
            "“{shape}”，但在 {there}{rows} 行中，其他相同时答案随 {feature} {does}："
            "每单位 {slope:+.3g} ± {error:.2g}".format_map(
                {
                    **a,
                    "does": "上升" if a["slope"] > 0 else "下降",
                    "there": between_words(a, "{feature} 为 {low:g} 到 {high:g} 的 "),
                }
            )
        ),
        lambda a: (
            f"检查这些行：形状在此不成立，或{'转折在别处' if a.get('between') else '只在一部分成立'}"
        ),
    ),
    "trust-unused": (
        "[trust] 说明多大程度采纳专家的预测，而这里没有预测",
        "在 [[predict.sources]] 中给出预测，或去掉 [trust]",
    ),
    "trust-empty": (
        "[trust] 区域 {number}：适用范围内没有行满足 {region_text}",
        "修改该区域，或放宽其特征的适用范围",
    ),
    "trust-data": (
        lambda a: (
            "在 {region_text} 处 trust 为 {trust:g}，其他处为 {usual:g}，但那里的 {rows} 行中专家的"
            "误差比其余 {others} 行{word}：平均 {here:.3g} 对 {there:.3g}".format_map(
                {**a, "word": "大" if a["here"] > a["there"] else "小"}
            )
        ),
        "检查这些行：区域可能写反了；或不写它的 trust，让站点学习",
    ),
    "example/columns": ("{error}", ""),
    "example/many": ("示例超过 {most} 个", ""),
    "example/fault": (_example("{error}"), _RULES),
    "example/expect": (_example("应为 {wanted}，专家说 {got}"), _RULES),
    "example/allowed": (_example("应可能为 {wanted}，实际为 {got}"), _RULES),
    "example/impossible": (_example("{wanted} 应当可能，实际不可能"), _RULES),
    "out-of-scope": (
        _with_rows("{count} 行的 '{feature}' 在适用范围 {low:g} 到 {high:g} 之外：{listed}"),
        "修改数值；若知识在那里也成立，放宽适用范围",
    ),
    "absent": (
        lambda a: (
            f"本站点没有 '{a['feature']}'："
            + (
                f"有 {a['rules']} 条规则需要它，凡缺此值的行都无法判定"
                if a["rules"]
                else "没有规则需要它"
            )
        ),
        "",
    ),
    "absent-values": (
        "'{feature}' 在 {rows} 行中有值，而 knowledge.toml 说本站点不测量它；这些值会被使用",
        "开始测量后删去 have = false",
    ),
    "measure/off": (
        "在同时有两者的 {rows} 行中，有 {count} 行由 '{own}' 换算的值与 '{feature}' 相差超过 "
        "within = {within:g}：平均 {mean:+.3g}，最多 {most:.3g}",
        "修改 by，或写 within = {most:.3g}",
    ),
    "measure/holds": (
        "在同时有两者的全部 {rows} 行中，由 '{own}' 换算的值与 '{feature}' 相差不超过 {within:g}",
        "",
    ),
    "empty-column": (
        "'{feature}' 在每一行都缺失",
        "若本站点不测量它，写上 have = false，否则查明原因",
    ),
    "constant-column": ("'{feature}' 只有一个值", "去掉它，或查明原因"),
    "copied-column": ("'{feature}' 是 '{other}' 的副本", "去掉其中之一"),
    "id-column": (
        "'{feature}' 像是行的编号：没有两个相同",
        "除非是测量值，否则去掉：从中学到的对其他行无效",
    ),
    "label-column": ("'{feature}' 就是换一种写法的标签", "若在得到标签之前并不知道它，就去掉"),
    "one-class": ("全部 {rows} 个标签都是“{name}”", "仅凭这些行学不到任何东西"),
    "unscored": (_with_rows("{count} 行无法评分，已略去：{listed}（{why}）"), ""),
    "label-outside": (_with_rows("{count} 个标签在其范围之外：{listed}"), _LABELS),
    "label-outside/number": ("{count} 个标签在其集合之外", _LABELS),
    "label-beyond": (
        "{count} 个标签超出界限 {lower:g} 到 {upper:g}",
        "修改它们，或在所有站点放宽界限",
    ),
    "outside-range/rows": ("预测在 {count} 行中超出范围（conflict = {policy}）", ""),
    "outside-range/number-rows": ("预测在 {count} 行中超出集合（conflict = {policy}）", ""),
    "weak-expert": (
        "预测在 {hits:.1%} 的行上正确；总是回答最常见的类别有 {majority:.1%} 正确",
        _TRUST_LOW,
    ),
    "weak-expert/number": (
        "预测的误差为 {error:.4g}；总是回答平均值的误差为 {spread:.4g}",
        _TRUST_LOW,
    ),
}


def _cases(confidence: float) -> str:
    return "" if confidence == 1.0 else f"（{100 * confidence:.4g} % 的情况）"


def _missing(a: Mapping[str, Any]) -> str:
    rules = f"{a['rules']} 条规则未应用" if a["rules"] else "没有规则需要它"
    return f"缺少 {a['feature']}：{rules}"


_SHARED = {
    "network": "共享网络",
    "one_shot": "联邦的一次性模型",
}


def _opinions(a: Mapping[str, Any]) -> str:
    counted, own = count_opinions(a["own"]), len(a["own"])
    parts = []
    if len(counted) == 1:
        parts.append(f"本站点的 {own} 个模型都说 {counted[0][0]}")
    elif counted:
        each = "，".join(f"{n} 个说 {answer}" for answer, n in counted)
        parts.append(f"本站点的 {own} 个模型中，{each}")
    parts += [f"{_SHARED[name]}偏向 {answer}" for name, answer in a["shared"].items()]
    return "；".join(parts)


def _shares(shares: Mapping[str, float]) -> str:
    known = {**_SHARED, "expert": "专家"}
    return "，".join(f"{known.get(n) or _member(n)} {100 * w:.3g} %" for n, w in shares.items())


def _member(name: str) -> str:
    return "，".join(TEXTS.get(part, part) for part in name.split(", "))


def _number_opinions(a: Mapping[str, Any]) -> str:
    parts = [f"{_SHARED[name]}说 {value:.4g}" for name, value in a["shared"].items()]
    if a["own"]:
        parts.insert(0, f"本站点的 {len(a['own'])} 个模型说 {number_span(a['own'], ' 到 ')}")
    return "；".join(parts)


def _change(a: Mapping[str, Any]) -> str:
    before, after, answer = (
        value if isinstance(value, str) else f"{value:.5g}"
        for value in (a["before"], a["after"], a["answer"])
    )
    unit = f" {a['unit']}" if a["unit"] else ""
    return (
        f"使答案改变的最小变化：{a['feature']} 由 {before} 变为 {after}{unit}，答案变为 {answer}"
        f"（每次只改一个输入，各试 {a['grid']} 个值）"
    )


_SIDES = {"expert": "专家的公式", "lower": "至少", "upper": "至多"}
_SAME_RANGE = "（在范围相同的行之间）"

REASONS: dict[str, Sentence] = {
    "text": "{text}",
    "rule": lambda a: f"{a['place']}，{a['rule']}：{a['text']}{_cases(a['confidence'])}",
    "formula": lambda a: f"{_SIDES[a['side']]} {a['text']} = {number_text(a['value'])}",
    "limit": lambda a: f"{_SIDES[a['side']]} {number_text(a['value'])}",
    "conformal-classes": "水平 {level:.4g} 的统计范围：{classes} 个类别中的 {allowed} 个",
    "conformal-number": lambda a: (
        f"水平 {a['level']:.4g} 的统计区间：两侧各 {number_text(a['radius'])}"
    ),
    "range-model": "由 {model} 给出的范围",
    "prediction-model": "由 {model} 给出的预测",
    "confusion": "{inner}（按其混淆矩阵采纳）",
    "soft": lambda a: f"{a['inner']}{_cases(a['confidence'])}",
    "missing": _missing,
    "forbidden": "专家说 {outcome}，而范围不允许：不采纳",
    "forbidden-part": "专家说 {outcome}，而范围不允许：去掉这一部分",
    "forbidden-moved": "专家说 {outcome}，而范围不允许：取范围内最近的数",
    "shape": lambda a: (
        f"“{a['shape']}”在此成立：{_side_of_turn(a)}{a['feature']} 增加不会使答案"
        f"{'降低' if a['sign'] > 0 else '升高'}{'' if a['kept'] else _SAME_RANGE}"
    ),
    "shape-silent": "“{shape}”在此没有说明",
    "trust-stated": "此处 trust 为 {trust:.3g}，因为 {where}",
    "trust-learned": "此处 trust 为 {trust:.3g}，由本站点学得",
    "trust-usual": "此处 trust 为 {trust:.3g}，与其他处相同，因为缺少 {missing}",
    "only-class": "{answer} 是范围允许的唯一类别",
    "expert-outweighs": "专家的 {answer} 胜过 {model}，trust 为 {trust:g}",
    "expert-tied": "专家认为 {expert} 同样可能，trust 为 {trust:g}；其中 {model} 偏向 {answer}",
    "both-say": "专家和 {model} 都说 {answer}",
    "both-favour": "专家和 {model} 合起来偏向 {answer}，trust 为 {trust:g}",
    "no-expert": "{model} 说 {answer}；没有专家的预测",
    "expert-silent": "{model} 说 {answer}；专家没有意见",
    "expert-unheard": "{model} 说 {answer}；专家的 {expert} 的 trust 为 0",
    "model-outweighs": "{model} 的 {answer} 胜过专家的 {expert}，trust 为 {trust:g}",
    "only-number": lambda a: f"{number_text(a['answer'])} 是范围允许的唯一数值",
    "expert-number": lambda a: f"{number_text(a['answer'])} 是专家的数值，trust 为 {a['trust']:g}",
    "mixed-number": lambda a: (
        f"{number_text(a['answer'])} 由专家的 {number_text(a['expert'])} 与 {a['model']} 混合而成，"
        f"trust 为 {a['trust']:g}"
    ),
    "model-number": lambda a: (
        f"{a['model']} 说 {number_text(a['answer'])}，在 {number_text(a['low'])} 到 "
        f"{number_text(a['high'])} 之内"
    ),
    "inputs": lambda a: f"影响最大的输入：{effect_words(a['effects'])}",
    "opinions": _opinions,
    "opinions-number": _number_opinions,
    "change": _change,
    "change-none": "在适用范围内，单独改变任何一个输入都不会改变答案（各试 {grid} 个值）",
    "members": lambda a: f"权重：{_shares(a['shares'])}",
    "scope-level": "超出适用范围：{feature} 的取值没有人列出",
    "scope-number": lambda a: (
        f"超出适用范围：{a['feature']} = {number_text(a['value'])}"
        f"{' ' + a['unit'] if a['unit'] else ''}，知识适用于 {a['low']:g} 到 {a['high']:g}"
    ),
}

_MODELS = {"network": "网络", "ensemble": "集成"}


def _with_model(sentence: Sentence) -> Sentence:
    """The same with {model}, who answers beside the expert, in Chinese."""

    def said(a: Mapping[str, Any]) -> str:
        named = {**a, "model": _MODELS.get(a["model"], a["model"])}
        return sentence.format_map(named) if isinstance(sentence, str) else sentence(named)

    return said


_DECIDERS = ("expert-", "both-", "no-expert", "model-", "mixed-number")
REASONS |= {kind: _with_model(s) for kind, s in REASONS.items() if kind.startswith(_DECIDERS)}

#: Texts of pages by the English one; `say` finds them, and a test that none is missing.
TEXTS: dict[str, str] = {
    "rows: examples and rows of data to which the rule applied": "rows：该规则适用的示例和数据行数",
    # the page of a service
    "This service needs a token": "此服务需要令牌",
    "Enter": "进入",
    "Paste a row from a spreadsheet, or fill in the fields": "从电子表格粘贴一行，或填写各栏",
    "values in the order below, or two lines: names and values": "按下列顺序的值，或两行：名称和值",
    "Predict": "预测",
    "Answer": "答案",
    "The answer will be here: the prediction, what the rules allow, and why.": (
        "答案将显示在这里：预测、规则允许什么、为什么。"
    ),
    "What would change it": "什么会改变答案",
    "Allowed": "允许",
    "Holds": "成立",
    "How sure": "有多确定",
    "Probabilities": "概率",
    "Where it lies": "位于何处",
    "Why": "为什么",
    "Is it still true?": "是否仍然成立？",
    "Day": "日期",
    "Record": "记下",
    "language": "语言",
    "{low} to {high}": "{low} 到 {high}",
    "{site}: how much {label}?": "{site}：{label} 是多少？",
    "{site}: which {label}?": "{site}：{label} 是哪一个？",
    "The row has {count} values, {needed} are needed: {names}": (
        "该行有 {count} 个值，需要 {needed} 个：{names}"
    ),
    "{name} is missing": "缺少 {name}",
    "{name} is not a number: {text}": "{name} 不是数字：{text}",
    "The range leaves nothing else.": "范围只留下这一个。",
    "The expert decided.": "由专家决定。",
    "The model decided.": "由模型决定。",
    "Expert and model together.": "由专家和模型共同决定。",
    "{predicted} {unit}, with 90 % from {first} to {last}; allowed from {low} to {high}": (
        "{predicted} {unit}，90 % 在 {first} 到 {last}；允许 {low} 到 {high}"
    ),
    "{low} to {high}; with 90 % from {first} to {last}": (
        "{low} 到 {high}；90 % 在 {first} 到 {last}"
    ),
    "One test differs from its mean by {noise} {unit} (sd), the model's mean from the true one by "
    "{ignorance}.": (
        "单次测量与其均值相差 {noise} {unit}（标准差），模型的均值与真值相差 {ignorance}。"
    ),
    "classes": "个类别",
    "This row is unlike the training data: the model knows too little about such rows.": (
        "该行与学习过的所有行都不同：未知多于噪声。"
    ),
    "Some values lie outside the scope that the expert declared: the rules were not made for "
    "them.": ("有的值在专家声明的适用范围之外：规则不是为它们制定的。"),
    "The expert holds several answers equally likely.": "专家认为几个答案同样可能。",
    "The expert is silent.": "专家没有意见。",
    "The expert says {answer}.": "专家说 {answer}。",
    "Trust {trust}.": "trust 为 {trust}。",
    "allowed": "允许",
    "excluded by the range": "被范围排除",
    "asking …": "正在询问……",
    "{input} {value}: {answer}": "{input} {value}：{answer}",
    "The service does not answer.": "服务没有应答。",
    "This token is wrong.": "令牌不对。",
    "Model {model} of {day}. What is typed here is answered by this site's own service and goes "
    "nowhere else.": "模型 {model}，{day}。在此输入的内容只由本站点自己的服务回答，不会传到别处。",
    "Measured {label} of the row above": "上面一行测得的 {label}",
    "alarm, since {since}": "报警，自 {since} 起",
    "{rows} rows": "{rows} 行",
    "The bar is full where the evidence against a claim raises an alarm.": (
        "条满之处，反对该说法的证据引发报警。"
    ),
    "{left} more questions have less.": "另有 {left} 个问题的证据更少。",
    "The measured {label} is not a number.": "测得的 {label} 不是数字。",
    "The measured {label} is missing.": "缺少测得的 {label}。",
    "Recorded: {rows} rows.": "已记下：{rows} 行。",
    "This row is already recorded, with this answer and day.": "这一行连同该答案和日期已经在内。",
    # what sets and intervals promise
    "{outside} of these {rows} labels lie outside the range": (
        "这 {rows} 个标签中有 {outside} 个在范围之外"
    ),
    "Does not hold with {level}: {beyond}, which no answer leaves; the whole range is given and "
    "holds {share} of them, of new rows like them between {low} and {high} with {sure}": (
        "不能以 {level} 成立：{beyond}，而答案不会超出范围；给出整个范围，它包含其中的 {share}，"
        "对同类新行以 {sure} 在 {low} 到 {high} 之间"
    ),
    "Holds for about {level} of new rows like the {rows} of this site, each seen by models that "
    "had not learned from it; the model that answers learned from all of them, so this is no "
    "guarantee{known}": (
        "对与本站点这 {rows} 行同类的新行，约有 {level} 成立；每行都由没有学过它的模型检验，而作答"
        "的模型学过全部这些行，因此这不是保证{known}"
    ),
    "Holds with {level} for new rows like the {rows} it was calibrated on, if nothing was learned "
    "from them; for these {rows} the share that is held lies between {low} and {high} with "
    "{sure}{known}": (
        "对与校准用的 {rows} 行同类的新行以 {level} 成立，前提是没有从这些行学习；对这 {rows} 行，"
        "成立的比例以 {sure} 在 {low} 到 {high} 之间{known}"
    ),
    # reports
    "What the names and numbers mean": "名称和数字的含义",
    "How this was made": "本页如何得出",
    "Results": "结果",
    "seeds": "种子",
    "settings (hash)": "设置（哈希）",
    "versions": "版本",
    "approach": "方法",
    "model": "模型",
    "mean": "平均",
    "class": "类别",
    "score": "指标",
    "value": "数值",
    "training rows": "训练行",
    "against": "对比",
    "their accuracy, %": "其正确率，%",
    "difference": "差",
    "95 % interval": "95 % 区间",
    "90 % interval": "90 % 区间",
    "reading": "解读",
    "not known": "未知",
    "{best} is right on {score} of test rows: {low} to {high} points more than {next}, the next best "
    "(95 % {over}).": "{best} 在 {score} 的测试行上正确：比其次的 {next} 高 {low} 到 {high} 个百分点（95 % {over}）。",
    "{best} misses least, {score}: {low} to {high} less than {next}, the next best (95 % {over}).": (
        "{best} 的误差最小，{score}：比其次的 {next} 小 {low} 到 {high}（95 % {over}）。"
    ),
    "{best} is best, {score}: {low} to {high} points more than {next}, the next (95 % {over}).": (
        "{best} 最好，{score}：比次好的 {next} 高 {low} 到 {high} 个百分点（95 % {over}）。"
    ),
    "No clear winner: {best} has the best mean, {score}, but cannot be told from {others} ({why}).": (
        "没有明显的优胜者：{best} 的平均最好，{score}，但与 {others} 无法区分（{why}）。"
    ),
    "one seed cannot tell more: --seeds 5 gives intervals": "一个种子无法判断：--seeds 5 给出区间",
    "interval over {count} seeds": "区间，{count} 个种子",
    "interval over {count} sites, one seed": "区间，{count} 个站点，一个种子",
    "The best of a column is marked where it can be told from the others.": (
        "每列中能与其他区分开的最好者有标记。"
    ),
    "Test accuracy, %": "测试正确率，%",
    "Predictions outside the range, %": "超出范围的预测，%",
    "{name} minus the others, points of mean accuracy": "{name} 减其他方法，平均正确率的百分点",
    ", at {share} % of the training rows": "，用 {share} % 的训练行",
    "0 without a decimal means exactly none, at every seed.": "没有小数的 0 表示在每个种子下都恰好没有。",
    "Paired by seed.": "按种子配对。",
    "one seed: no interval": "一个种子：没有区间",
    "{name} is better": "{name} 更好",
    "{name} is worse": "{name} 更差",
    "may be chance": "可能是偶然",
    "{line} gave no answer on {share} % of rows; they count wrong.": (
        "{line} 在 {share} % 的行上没有回答；计为错误。"
    ),
    "The ranges hold the true class of {share} % of the test rows and allow {width} classes on "
    "average.": "范围包含 {share} % 测试行的真实类别，平均允许 {width} 个类别。",
    "Incomplete: {count} scores are missing, so some means stand on fewer seeds. A mean counts only "
    "the seeds that have every client.": (
        "不完整：缺少 {count} 个结果，因此有的平均基于较少的种子。平均只计有全部站点的种子。"
    ),
    "{name} names no number on {share} % of rows; they do not count.": (
        "{name} 在 {share} % 的行上没有给出数值；这些行不计。"
    ),
    "All scores, mean over clients": "所有指标，各站点平均",
    "outside, %": "超出，%",
    "coverage, %": "覆盖率，%",
    "width": "宽度",
    "Scores that count every class alike, mean over clients": "各类别同等计算的指标，各站点平均",
    "balanced accuracy, %": "平衡正确率，%",
    "macro F1, %": "宏 F1，%",
    "mean error, grades": "平均误差，等级",
    "quadratic kappa": "二次 kappa",
    "Balanced accuracy is the mean share of each class that was found, macro F1 the mean of "
    "2·right / (named + there) over classes: rare ones count as much as common ones.": (
        "平衡正确率是每个类别被找出的比例的平均，宏 F1 是各类别 2·正确 /（给出 + 实有）的平均："
        "少见的类别与常见的同等计算。"
    ),
    "Precision | recall of each class, %": "每个类别的精确率 | 召回率，%",
    "Test accuracy by share of the training rows, %": "按训练行比例的测试正确率，%",
    "Do probabilities mean what they say": "概率是否名副其实",
    "calibration error, %": "校准误差，%",
    "calibration error": "校准误差",
    "log-loss": "对数损失",
    "Brier score": "Brier 分数",
    "An approach that names classes without probabilities has nothing here: not known.": (
        "只给出类别而没有概率的方法在此没有数值：未知。"
    ),
    "Scores of probabilities": "概率的指标",
    "Labels held by its intervals": "其区间包含的标签",
    "Labels held by intervals, %": "区间包含的标签，%",
    "Central intervals of each client's own distribution, all clients together.": (
        "各站点自己分布的中心区间，所有站点合计。"
    ),
    "promised": "承诺",
    "held": "实际",
    "all rows": "全部行",
    "{share} % of the rows": "{share} % 的行",
    "own λ": "各自的 λ",
    "{name} protocol": "{name} 方案",
    "oracle ranges": "先知范围",
    "experts' ranges": "专家的范围",
    "conformal ranges": "保形范围",
    "no ranges": "没有范围",
    "conformal ranges at {level} %": "{level} % 的保形范围",
    " at {level} %": "（{level} %）",
    "Simulated coke": "模拟焦炭",
    "Real cokes": "真实焦炭",
    "Test accuracy is the share of a client's own test rows that were predicted right; outside the "
    "range is the share of predictions that the client's knowledge does not allow. Means count "
    "every client the same.": (
        "测试正确率是站点自己的测试行中预测正确的比例；超出范围是该站点的知识不允许的预测的比例。"
        "求平均时各站点同等计算。"
    ),
    "The number after ± is half of the 95 % interval of the mean over {seeds} seeds (Student's t).": (
        "± 之后是 {seeds} 个种子平均值的 95 % 区间的一半（Student t）。"
    ),
    "There is only one seed, so nothing can be said about chance: no intervals are shown.": (
        "只有一个种子，因此无法谈论偶然性：不显示区间。"
    ),
    "RMSE is the root of the mean squared error on a client's own test rows, MAE the mean absolute "
    "error, R² the share of the variance that is explained. Outside is the share of predictions "
    "that leave the set of the client's knowledge, without tolerance. Coverage and width are those "
    "of the 90 % prediction intervals. CRPS is the mean distance of the whole predictive "
    "distribution from the number, in its units. Means count every client the same.": (
        "RMSE 是站点自己测试行上均方误差的平方根，MAE 是平均绝对误差，R² 是解释的方差比例。超出是离开"
        "站点知识所允许集合的预测的比例，不留余量。覆盖率和宽度属于 90 % 预测区间。CRPS 是整个预测分布"
        "与数值的平均距离，单位与数值相同。求平均时各站点同等计算。"
    ),
    "Simulated data: no plant measured any of this. Coals, coke and experts come from a simulator "
    "built on published facts, so the numbers show how the approaches behave, not what a real "
    "plant would gain.": (
        "模拟数据：没有任何工厂测量过这些。煤、焦炭和专家都来自依据公开事实建立的模拟器，因此这些数字"
        "说明各方法的表现，而不是真实工厂的收益。"
    ),
    "Oracle ranges: read these numbers as an upper bound. The range of every test row was built "
    "from its true label, as the paper's authors did, so it always contains the right answer. "
    "Nobody has such a range in practice. That no prediction leaves it, and a good part of the "
    "accuracy of every approach with knowledge, comes from knowing the answer beforehand.": (
        "先知范围：这些数字应视为上限。每个测试行的范围都由其真实标签构造，如论文作者所做，因此总是包含"
        "正确答案。实际中没有人有这样的范围。没有预测超出它，以及有知识的方法的大部分正确率，都来自事先"
        "知道答案。"
    ),
    "Conformal ranges{level}: sets that each client worked out from its own training rows, without "
    "looking at any test label. They are meant to hold the true class in that share of rows, not "
    "in all of them; where one misses, an approach that keeps to it must be wrong.": (
        "保形范围{level}：每个站点由自己的训练行得出的集合，没有看任何测试标签。它们应在该比例的行中"
        "包含真实类别，而不是全部；若有遗漏，遵守它的方法必然出错。"
    ),
    "a site on its own: the best of the models it can make itself (linear, extra trees, boosted "
    "trees; with and without the expert's word), chosen by cross-validation on its own rows, "
    "behind the same range": (
        "站点单独：它自己能做的模型（线性、极端随机树、提升树；有或没有专家的意见）中最好的，由自己的行"
        "交叉验证选出，受同一范围约束"
    ),
    "each client trains alone, without knowledge": "各站点单独训练，没有知识",
    "the expert's own answer; nobody learns": "专家自己的答案；没有学习",
    "each client trains alone, with its knowledge": "各站点单独训练，带有自己的知识",
    "one network trained together (federated), without knowledge": "共同训练（联邦）的一个网络，没有知识",
    "one network trained together, seen through each client's knowledge (the paper's)": (
        "共同训练的一个网络，经各站点的知识使用（论文的方法）"
    ),
    "the weights of FL, with the knowledge added only when predicting": "FL 的权重，只在预测时加入知识",
    "our own recipe: a shared model chosen by trials on training rows, and at each site an ensemble "
    "of it with the site's own models and the expert, weights private": (
        "我们自己的配方：由训练行上的试验选出的共享模型，在每个站点与其自己的模型和专家组成集成，权重保密"
    ),
    "weights that a client trained for itself": "站点为自己训练的权重",
    "all that a site has: the shared network, its own models, its expert": (
        "站点拥有的一切：共享网络、自己的模型、自己的专家"
    ),
    "the network that all clients trained together, as the last round left it": (
        "所有站点共同训练的网络，最后一轮之后的状态"
    ),
    "the shared network after one more round of training at the client itself": (
        "共享网络在站点自己再训练一轮之后"
    ),
    "no weights: what the expert says": "没有权重：专家所说",
    # what a site gains
    "What {site} gains by taking part": "{site} 参与的收益",
    "On its own, {site}'s best model is right on {alone} % of its rows; with the federation {ours} "
    "%.": "{site} 单独时，最好的模型在 {alone} % 的行上正确；加入联邦后为 {ours} %。",
    "On its own, {site}'s best model misses by {alone} (RMSE); with the federation by {ours}.": (
        "{site} 单独时，最好的模型误差为 {alone}（RMSE）；加入联邦后为 {ours}。"
    ),
    "{gain} points of accuracy over {against} ({low} to {high}, {rows} rows)": (
        "正确率比{against}高 {gain} 个百分点（{low} 到 {high}，{rows} 行）"
    ),
    "RMSE {gain} lower than that of {against} ({low} to {high}, {rows} rows)": (
        "RMSE 比{against}低 {gain}（{low} 到 {high}，{rows} 行）"
    ),
    "RMSE {gain} higher than that of {against} ({low} to {high}, {rows} rows)": (
        "RMSE 比{against}高 {gain}（{low} 到 {high}，{rows} 行）"
    ),
    "Taking part pays for this site: {said}.": "参与对本站点有益：{said}。",
    "Taking part does not pay for this site: {said}.": "参与对本站点无益：{said}。",
    "Taking part is likely to pay for this site, but its rows cannot prove it: {said}.": (
        "参与对本站点可能有益，但这些行不足以证明：{said}。"
    ),
    "Taking part is not likely to pay for this site, but its rows cannot prove it: {said}.": (
        "参与对本站点可能无益，但这些行不足以证明：{said}。"
    ),
    "what it rests on": "依据",
    "what would change it": "什么会改变它",
    "left out": "未采用",
    "{rows} rows of this site, each predicted by models that had not seen it; {members} members, "
    "weighed on other rows than those they are judged by": (
        "本站点的 {rows} 行，每行都由没有见过它的模型预测；{members} 个成员，其权重由评判之外的行确定"
    ),
    "about {rows} rows like these would settle it": "约 {rows} 行同类数据即可确定",
    "more rows would hardly settle it: the two are nearly equal": "更多的行也难以确定：两者几乎相等",
    "without {member} it would be {cost} {unit} worse": "去掉 {member} 会差 {cost} {unit}",
    "points": "个百分点",
    "rows of another kind than these: fedlore monitor watches for them": (
        "与此不同的行：由 fedlore monitor 监视"
    ),
    "What each way is worth here": "各种方式在此的价值",
    "Ways to predict, on rows that no model had seen": "各种预测方式，用模型没有见过的行",
    "way": "方式",
    "rows predicted right, %": "预测正确的行，%",
    "Members of the ensemble": "集成的成员",
    "member": "成员",
    "weight, %": "权重，%",
    "cost of removing it, points": "去掉它的代价，百分点",
    "cost of removing it, RMSE": "去掉它的代价，RMSE",
    "local best, without the others": "本地最佳，没有其他站点",
    "expert": "专家",
    "federation without knowledge": "没有知识的联邦",
    "federation with knowledge": "有知识的联邦",
    "one-shot model of the federation": "联邦的一次性模型",
    "ensemble of all of them": "以上全部的集成",
    "ensemble": "集成",
    "cost of removing": "去掉的代价",
    "all models that this site makes from its own rows, weighed by rows they had not seen": (
        "本站点由自己的行做出的全部模型，按它们未见过的行加权"
    ),
    "the expert's own answer": "专家自己的答案",
    "one network that all sites train together, unaware of any expert": "所有站点共同训练、不知道专家的网络",
    "the shared network of the recipe, seen through this site's knowledge": "配方的共享网络，经本站点的知识使用",
    "a linear model from sums that every site sends once": "由各站点只发送一次的总和得出的线性模型",
    "trees drawn by chance whose leaves are learned from sums": "随机抽取的树，其叶由总和学得",
    "all of these, with weights that this site chose on its own rows: what it predicts with": (
        "以上全部，权重由本站点在自己的行上选定：它用来预测的模型"
    ),
    "how much worse the ensemble would be without a member; below 0 it would be better": (
        "没有某个成员时集成会差多少；小于 0 则会更好"
    ),
    "Every number stands on this site's own training rows, each predicted by models that had not "
    "seen it; the intervals are made to hold for 95 % of such drawings of rows. Members, weights "
    "and temperature of the ensemble were chosen on other rows than those it is judged by.": (
        "每个数字都基于本站点自己的训练行，每行都由没有见过它的模型预测；区间对 95 % 的这类抽样成立。"
        "集成的成员、权重和温度由评判之外的行选定。"
    ),
    "This page is this site's own: nothing of it was sent to anybody.": "本页属于本站点：没有发送给任何人。",
    "Do its intervals hold?": "其区间是否成立？",
    "Do its probabilities mean what they say?": "其概率是否名副其实？",
    "how far the probability of the top label and the share of rows on which it was right lie "
    "apart, on average over 15 bins of equal mass; few rows push it up, and the interval holds for "
    "90 % of such drawings of rows": (
        "首选标签的概率与其正确比例相差多少，按 15 个等量分组平均；行少会使它偏高，区间对 90 % 的这类抽样成立"
    ),
    "log-loss, Brier score, CRPS": "对数损失、Brier 分数、CRPS",
    "scores of whole distributions, less is better: the mean of -log p of the label, its squared "
    "distance from the label, and the same on an ordered scale, in classes or in units of the "
    "number": "对整个分布的评分，越小越好：标签的 -log p 的平均、与标签的平方距离，以及在有序尺度上的同一距离",
    # the rule book
    "Rule book: {name}": "规则手册：{name}",
    "What the expert would answer": "专家会怎样回答",
    "Which answers are possible": "哪些答案是可能的",
    "Examples, with the answer that is expected": "示例及应有的答案",
    "What the check says": "检查结果",
    "Findings": "发现",
    "kind": "种类",
    "place": "位置",
    "finding": "发现",
    "error": "错误",
    "warning": "警告",
    "info": "说明",
    "Features": "特征",
    "The features are not declared well.": "特征的声明有误。",
    "Features and answers": "特征与答案",
    "Columns of a row": "一行的各列",
    "Answers in {label}: {classes}": "{label} 的答案：{classes}",
    "name": "名称",
    "unit": "单位",
    "scope": "适用范围",
    "levels": "取值",
    "By row of the file": "按文件的行",
    "When several rules apply: {hit}": "多条规则适用时：{hit}",
    "row": "行",
    "cells": "单元格",
    "note": "备注",
    "Formulas": "公式",
    "As they are written": "原文",
    "says": "说明",
    "as": "作为",
    "formula": "公式",
    "Shapes: which way the answer moves": "形状：答案朝哪个方向变化",
    "feature": "特征",
    "effect": "作用",
    "where": "条件",
    "printed": "打印于",
    "signature": "签名",
    "owner": "负责人",
    "version": "版本",
    "reference": "参考",
    "A rule applies where all its conditions hold; an empty cell holds for any value.": (
        "一条规则在其所有条件都成立时适用；空单元格对任何值都成立。"
    ),
    "predict": "预测",
    "range": "范围",
    "what the expert would say": "专家会怎样说",
    "what is possible at all": "究竟什么是可能的",
    # members of an ensemble
    "shared network": "共享网络",
    "ordinal linear": "有序线性",
    "ridge": "岭回归",
    "quadratic ridge": "二次岭回归",
    "Gaussian process": "高斯过程",
    "extra trees": "极端随机树",
    "boosted trees": "提升树",
    "logistic": "逻辑回归",
    "correcting the expert": "修正专家",
    "given the expert's answer": "已知专家的答案",
}
