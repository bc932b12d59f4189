"""A turn of a conversation with a model: its window, its compaction, and the assembled request.

`elytron_turn.assembler` builds requests within a window, `context` holds their parts, `compaction` moves old turns into
summaries, and `sizes` estimates tokens.
"""
