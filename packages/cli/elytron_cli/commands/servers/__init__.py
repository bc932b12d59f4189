"""Commands that start a server or call one."""
