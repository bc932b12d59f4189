"""Readers for chats and mail: messenger exports, mailboxes, and message histories of agent frameworks."""

__all__: list[str] = []
