"""Readers of chats and mail: exports of messengers, mailboxes, and message histories of agent frameworks."""

__all__: list[str] = []
