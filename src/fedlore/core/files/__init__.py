"""Tables as they lie on a disk: text in any common writing, and workbooks."""

_FAULT = "table-file"  # the code of errors raised here
