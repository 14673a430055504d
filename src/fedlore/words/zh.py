"""Chinese: the same keys as `en`, and the same arguments."""

from collections.abc import Mapping, Sequence
from typing import Any

from .en import (
    SHOWN,
    Sentence,
    effect_words,
    number_text,
    round_confidence,
    share_words,
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

FINDINGS: dict[str, tuple[Sentence, Sentence]] = {
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
            "“{shape}”，但在 {rows} 行中，其他相同时答案随 {feature} {does}："
            "每单位 {slope:+.3g} ± {error:.2g}".format_map(
                {**a, "does": "上升" if a["slope"] > 0 else "下降"}
            )
        ),
        "检查这些行：形状在此不成立，或只在一部分成立",
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
        f"“{a['shape']}”在此成立：{a['feature']} 增加不会使答案"
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
    "members": lambda a: f"参与者：{share_words(a['shares'])}",
    "scope-level": "超出适用范围：{feature} 的取值没有人列出",
    "scope-number": lambda a: (
        f"超出适用范围：{a['feature']} = {number_text(a['value'])}"
        f"{' ' + a['unit'] if a['unit'] else ''}，知识适用于 {a['low']:g} 到 {a['high']:g}"
    ),
}
