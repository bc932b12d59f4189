"""elytron_cli.commands.agents"""
