"""The exit codes of every command, in one place: scripts may count on them."""

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """What a command says to the shell when it ends."""

    FINE = 0
    NO = 1
    UNUSABLE = 2
    FAULT = 70  # EX_SOFTWARE of sysexits.h
    STOPPED = 130  # 128 + SIGINT, as shells have it


#: What each stands for, as the manual and the pages say it.
CODE_MEANINGS: dict[ExitCode, str] = {
    ExitCode.FINE: "It was done.",
    ExitCode.NO: "It was done, and the answer is no: findings of severity error, rows without an "
    "answer, no blend that reaches the target, a claim that was not proved, a check that failed, "
    "terms that were not agreed to.",
    ExitCode.UNUSABLE: "What was given cannot be used: one sentence on stderr says what and why.",
    ExitCode.FAULT: "A fault in fedlore itself; its details are in a file that the message names.",
    ExitCode.STOPPED: "Stopped by Ctrl-C; one sentence on stderr says what was kept.",
}
