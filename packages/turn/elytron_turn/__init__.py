"""A turn of a conversation with a model: its window, its compaction, and the request that is assembled of it.

`elytron_turn.assembler` builds requests within a window, `context` holds what they are made of, `compaction` moves old
turns into summaries, and `sizes` estimates tokens.
"""
