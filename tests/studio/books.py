"""Workbooks of several programs with all that users put into them; each has a sheet 'rules'.

Some are written by openpyxl and XlsxWriter, some by hand in ways that other programs write them.
"""

import io
import re
import zipfile
import zlib

HEAD, RULES = ["ash", "then"], [["> 12", "III..II"], ["< 8", "II..I"]]


def _chunk(kind, data):
    check = zlib.crc32(kind + data).to_bytes(4, "big")
    return len(data).to_bytes(4, "big") + kind + data + check


def png():
    """A picture of one pixel."""
    head = bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0])
    body = zlib.compress(b"\0\xff\x80\x20")
    parts = _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


# --- openpyxl ---------------------------------------------------------------------------------


def _format(book, page):
    from openpyxl.styles import Alignment, Border, Font, PatternFill, Side

    page["A1"].font = Font(name="Noto Sans", bold=True, color="AA2200")
    page["A2"].fill = PatternFill("solid", fgColor="FFEE88")
    page["B2"].border = Border(left=Side("thick"), bottom=Side("dotted"))
    page["B3"].alignment = Alignment(wrap_text=True, text_rotation=30)
    page.row_dimensions[2].height = 41
    page.column_dimensions["A"].width = 31


def _remark(book, page):
    from openpyxl.comments import Comment

    page["A2"].comment = Comment("since 2019, see <norm> & annex", "Ann")
    page["B3"].comment = Comment("良い", "Bo")


def _merge(book, page):
    page["D1"] = "remarks"
    page.insert_rows(2)  # a header over two rows
    for letter in "ABD":
        page.merge_cells(f"{letter}1:{letter}2")


def _chart(book, page):
    from openpyxl.chart import BarChart, LineChart, Reference

    other = book.create_sheet("numbers")
    for i in range(1, 6):
        other.append([i, f"=A{i}*2"])
    for kind, place in ((BarChart, "H2"), (LineChart, "H20")):
        chart = kind()
        chart.add_data(Reference(other, min_col=1, min_row=1, max_row=5))
        other.add_chart(chart, place)
    onsite = BarChart()
    onsite.add_data(Reference(other, min_col=1, min_row=1, max_row=5))
    page.add_chart(onsite, "F5")


def _picture(book, page):
    from openpyxl.drawing.image import Image

    page.add_image(Image(io.BytesIO(png())), "F3")


def _sheets(book, page):
    for name in ("première", "数据", "hidden"):
        book.create_sheet(name, 0)["A1"] = f"{name}: not a rule"
    book["hidden"].sheet_state = "veryHidden"
    book.active = 2


def _validate(book, page):
    from openpyxl.formatting.rule import CellIsRule, ColorScaleRule
    from openpyxl.styles import Font
    from openpyxl.worksheet.datavalidation import DataValidation

    allowed = DataValidation(type="list", formula1='"I,II,III"', allow_blank=True)
    page.add_data_validation(allowed)
    allowed.add("B2:B90")
    red = Font(color="FF0000")
    page.conditional_formatting.add("A2:A9", CellIsRule("equal", ['"x"'], font=red))
    page.conditional_formatting.add(
        "D1:D9", ColorScaleRule("min", None, "FF0000", "max", None, "00FF00")
    )


def _print(book, page):
    from openpyxl.workbook.defined_name import DefinedName

    book.defined_names["limits"] = DefinedName("limits", attr_text="rules!$A$1:$B$3")
    page.freeze_panes = "B2"
    page.print_title_rows = "1:1"
    page.oddFooter.center.text = "&P of &N"
    page.auto_filter.ref = "A1:B3"
    page.protection.sheet = True


def _compute(book, page):
    page["D2"], page["D3"] = "=LEN(A2)", "=D2+1"
    page["E2"].hyperlink = "https://example.org/norm"


def _number(book, page):
    page["A3"] = 8
    page["A3"].number_format = "0.00%"


def by_openpyxl(*changes):
    import openpyxl

    book = openpyxl.Workbook()
    page = book.active
    page.title = "rules"
    for row in [HEAD, *RULES]:
        page.append(row)
    for change in changes:
        change(book, page)
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


# --- XlsxWriter -------------------------------------------------------------------------------


def by_xlsxwriter(*wishes, **options):
    import xlsxwriter

    made = io.BytesIO()
    book = xlsxwriter.Workbook(made, {"in_memory": True, **options})
    if "sheets" in wishes:
        for name in ("first & <last>", "ölig"):
            book.add_worksheet(name).write("A1", name)
    page = book.add_worksheet("rules")
    bold = book.add_format({"bold": True, "bg_color": "#FFEE88", "border": 2})
    for i, row in enumerate([HEAD, *RULES]):
        for j, text in enumerate(row):
            page.write_string(i, j, text, bold if "formats" in wishes and i != 1 else None)
    if "comments" in wishes:
        page.write_comment("A2", "since 2019", {"author": "Ann", "visible": True})
    if "merged" in wishes:
        page.merge_range("D1:F2", "remarks of the foreman", bold)
    if "chart" in wishes:
        for kind in ("pie", "column"):
            chart = book.add_chart({"type": kind})
            chart.add_series({"values": "=rules!$H$1:$H$3"})
            page.insert_chart("J2" if kind == "pie" else "J30", chart)
        page.write_column("H1", [1, 2, 3])
    if "picture" in wishes:
        page.insert_image("D4", "pixel.png", {"image_data": io.BytesIO(png())})
        page.set_header("&L&G", {"image_left": "p.png", "image_data_left": io.BytesIO(png())})
    if "table" in wishes:
        about = {
            "columns": [{"header": "plant"}, {"header": "year"}],
            "style": "Table Style Dark 4",
        }
        book.add_worksheet("list").add_table("B2:C9", about)
    if "validation" in wishes:
        page.data_validation("B2:B99", {"validate": "list", "source": ["I", "II", "III"]})
        page.conditional_format("A2:A99", {"type": "data_bar", "bar_solid": True})
        page.add_sparkline("E2", {"range": "rules!H1:H3"})
    if "rich" in wishes:
        page.write_rich_string("D2", bold, "bold", " and plain ", bold, "again")
        page.insert_textbox("F9", "a box & its <text>")
        page.write_formula("D3", "=LEN(A2)", None, 4)
    book.set_properties({"title": "rules of the plant", "keywords": "ash"})
    book.close()
    return made.getvalue()


# --- by hand, as other programs write ---------------------------------------------------------

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
DECLARED = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'


def _sheet(cells='r="{place}"', rows='r="{row}"', space=""):
    lines = []
    for i, row in enumerate([HEAD, *RULES], 1):
        places = [cells.format(place="AB"[j] + str(i)) for j, _ in enumerate(row)]
        inner = "".join(
            f'<c {place} s="1" t="s"><v>{2 * i + j - 2}</v></c>{space}'
            for j, place in enumerate(places)
        )
        lines.append(f'<row {rows.format(row=i)} spans="1:2">{space}{inner}</row>{space}')
    return f'<worksheet xmlns="{MAIN}"><sheetData>{space}{"".join(lines)}</sheetData></worksheet>'


def _strings():
    texts = [text for row in [HEAD, *RULES] for text in row]
    items = [f"<si><t>{t.replace('<', '&lt;').replace('>', '&gt;')}</t></si>" for t in texts]
    return f'<sst xmlns="{MAIN}" count="6" uniqueCount="6">{"".join(items)}</sst>'


def parts(
    sheet=None, *, at="xl/worksheets/sheet1.xml", target="worksheets/sheet1.xml", strings=None
):
    """The members of a small workbook, as Google's and others' exports have them."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    types = "".join(
        f'<Override PartName="/{name}" ContentType="{kind}.{word}+xml"/>'
        for name, word in (
            ("xl/workbook.xml", "sheet.main"),
            (at, "worksheet"),
            ("xl/sharedStrings.xml", "sharedStrings"),
            ("xl/styles.xml", "styles"),
        )
    )
    style = (
        f'<styleSheet xmlns="{MAIN}"><fonts><font/></fonts><fills>'
        "<fill><patternFill/></fill></fills><borders><border/></borders><cellStyleXfs><xf/></cellStyleXfs>"
        '<cellXfs count="2"><xf/><xf numFmtId="49"/></cellXfs></styleSheet>'
    )
    found = {
        "[Content_Types].xml": f'<Types xmlns="{TYPES}"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
        f'ContentType="application/xml"/>{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="rId1" Type="{LINKS}/'
        'officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets><sheet '
        'name="rules" sheetId="7" r:id="rId3"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="rId3" '
        f'Type="{LINKS}/worksheet" Target="{target}"/><Relationship Id="rId4" Type="{LINKS}/'
        f'sharedStrings" Target="sharedStrings.xml"/><Relationship Id="rId5" Type="{LINKS}/styles" '
        'Target="styles.xml"/></Relationships>',
        at: sheet or _sheet(),
        "xl/sharedStrings.xml": strings or _strings(),
        "xl/styles.xml": style,
        "docProps/thumbnail.jpeg": "\x00 no text \x7f",
        "customXml/item1.xml": "<mine>&#228;</mine>",
    }
    return {name: (DECLARED + text).encode() for name, text in found.items()}


class _Stream(io.RawIOBase):
    """A file that cannot be wound back: entries get their sizes behind them."""

    def __init__(self):
        self.data = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.data += data
        return len(data)


def pack(members, *, kind=zipfile.ZIP_DEFLATED, comment=b"", stream=False, folders=()):
    made = _Stream() if stream else io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as book:
        for name in folders:
            book.writestr(f"{name}/", b"")
        for name, data in members.items():
            book.writestr(name, data)
        book.comment = comment
    return bytes(made.data) if stream else made.getvalue()


def _prefixed(text):
    """Every element of the sheet under a prefix, as some libraries write."""
    text = re.sub(r"<(/?)(?=[a-zA-Z])", r"<\1x:", text)
    return text.replace('xmlns="', 'xmlns:x="', 1)


_RICH = _strings().replace(
    "<si><t>ash</t></si>",
    '<si><r><rPr><b/></rPr><t xml:space="preserve">a</t></r><r><t>sh</t></r><rPh sb="0" eb="1">'
    "<t>アッシュ</t></rPh></si>",
)
_MORE = _sheet().replace(
    "</worksheet>",
    '<mergeCells count="1"><mergeCell ref="D1:E1"/></mergeCells><extLst><ext uri="{78C0D931-'
    '6437-407d-A8EE-F0AAD7539E65}" xmlns:x14="http://schemas.microsoft.com/office/spreadsheetml/2009/9/main">'
    "<x14:conditionalFormattings/></ext></extLst></worksheet>",
)
_INLINE = re.sub(
    r't="s"><v>(\d)</v>',
    lambda found: (
        't="inlineStr"><is><t>'
        + [t for row in [HEAD, *RULES] for t in row][int(found[1])]
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        + "</t></is>"
    ),
    _sheet(),
)

BOOKS = {
    "openpyxl-plain": lambda: by_openpyxl(),
    "openpyxl-formats": lambda: by_openpyxl(_format),
    "openpyxl-comments": lambda: by_openpyxl(_remark, _format),
    "openpyxl-merged": lambda: by_openpyxl(_merge),
    "openpyxl-charts": lambda: by_openpyxl(_chart),
    "openpyxl-picture": lambda: by_openpyxl(_picture),
    "openpyxl-sheets": lambda: by_openpyxl(_sheets),
    "openpyxl-validation": lambda: by_openpyxl(_validate),
    "openpyxl-print": lambda: by_openpyxl(_print),
    "openpyxl-formulas": lambda: by_openpyxl(_compute, _remark, _chart, _picture, _number),
    "xlsxwriter-plain": lambda: by_xlsxwriter(),
    "xlsxwriter-formats": lambda: by_xlsxwriter("formats"),
    "xlsxwriter-comments": lambda: by_xlsxwriter("comments", "formats"),
    "xlsxwriter-merged": lambda: by_xlsxwriter("merged"),
    "xlsxwriter-charts": lambda: by_xlsxwriter("chart"),
    "xlsxwriter-pictures": lambda: by_xlsxwriter("picture"),
    "xlsxwriter-sheets": lambda: by_xlsxwriter("sheets", "table"),
    "xlsxwriter-validation": lambda: by_xlsxwriter("validation"),
    "xlsxwriter-rich": lambda: by_xlsxwriter("rich", "comments", "chart"),
    "xlsxwriter-constant": lambda: by_xlsxwriter("formats", constant_memory=True),
    "hand-plain": lambda: pack(parts()),
    "hand-prefixed": lambda: pack(parts(_prefixed(_sheet()))),
    "hand-no-places": lambda: pack(parts(_sheet(cells="", rows="")).copy()),
    "hand-spaced": lambda: pack(parts(_sheet(space="\r\n  "))),
    "hand-absolute": lambda: pack(
        parts(at="xl/worksheets/Лист A.xml", target="/xl/worksheets/Лист A.xml")
    ),
    "hand-quotes": lambda: pack(parts(_sheet().replace('"', "'"))),
    "hand-streamed": lambda: pack(parts(_INLINE), stream=True),
    "hand-stored": lambda: pack(
        parts(), kind=zipfile.ZIP_STORED, comment=b"mine", folders=("xl", "_rels")
    ),
    "hand-rich": lambda: pack(parts(strings=_RICH)),
    "hand-extended": lambda: pack(parts(_MORE)),
}
