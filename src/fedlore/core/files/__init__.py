"""Tables as they lie on a disk: text in any common writing, and workbooks."""
