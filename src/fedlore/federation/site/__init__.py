"""A site: its folder, its policy, the tasks it answers and what it keeps."""

_FAULT = "site"  # the code of errors raised here
