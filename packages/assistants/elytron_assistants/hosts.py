"""The hosts that Elytron knows: assistants and other programs that can use the memory."""

from enum import StrEnum


class HostName(StrEnum):
    """A program that can use the memory."""

    CLAUDE_CODE = "claude-code"
    CLAUDE_DESKTOP = "claude-desktop"
    CLINE = "cline"
    CODEX = "codex"
    CONTINUE = "continue"
    COPILOT = "copilot"
    CURSOR = "cursor"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    VSCODE = "vscode"
    WINDSURF = "windsurf"
    ZED = "zed"
