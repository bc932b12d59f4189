"""Limits of the memory proxy."""

from typing import Final

REQUEST_BYTES: Final = 64 * 1024 * 1024
"""A request with its images."""
REQUEST_WAIT_S: Final = 60.0
"""Timeout for receiving a request's body."""
READ_AT_ONCE_BYTES: Final = 256 * 1024
"""A longer request is parsed and written in a thread."""
RELAY_BYTES: Final = 1024 * 1024
"""Maximum bytes of one stream that wait for the end of an event; beyond that, bytes pass as they come."""
WHOLE_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a non-streamed answer that is read for memory."""
ANSWER_CHARS: Final = 1_000_000
"""Maximum text of an answer stored as evidence; nothing of a longer one is stored."""
CALL_NAME_CHARS: Final = 64 * 1024
"""Maximum tool names of one answer."""
BLOCK_CHARS: Final = 1_500
"""Default size of the block: small compared with a chat, so that most of a request stays cached."""
BLOCKS: Final = 4_096
"""Blocks of user turns that are cached in memory."""
BLOCKS_BEFORE: Final = 16
"""Earlier turns with tools whose blocks stay in place."""
QUOTED: Final = 8
QUOTED_CHARS: Final = 40
"""Last turns that a program's task may quote, and their minimum length for recognition."""
OPEN_TURN_TTL_S: Final = 24 * 3600
"""How long an answer can complete the turn whose tools ran; later it becomes a separate turn."""
NODE_TTL_S: Final = 90 * 24 * 3600
"""How long a conversation is recognised by its messages; later it counts as a new one."""
RESPONSE_TTL_S: Final = 30 * 24 * 3600
"""How long a stored response can be continued."""
RESPONSE_CHAIN: Final = 256
"""Maximum chain of responses that one request may continue."""
RESPONSE_INPUT_BYTES: Final = 16 * 1024 * 1024
INPUT_ITEMS: Final = 100
"""Items per page of a stored response's input."""
AUDITS: Final = 32
"""Blocks that the audit stores per space, if it is enabled."""
REGISTRIES: Final = 1_024
"""Tool sets that are remembered as registered."""
TOOLS: Final = 128
"""Maximum tools of one request that are registered; with more, none are."""
FINISH_S: Final = 600.0
"""How long an answer is read after its client left, if requested."""
ERROR_BYTES: Final = 64 * 1024
"""Maximum bytes read of an upstream's refusal, to see whether sealed reasoning is its reason."""
CONNECT_S: Final = 10.0
SILENCE_S: Final = 600.0
"""Maximum silence of an upstream, before its answer and within it."""
ATTEMPTS: Final = 2
"""Attempts to send a request without a byte of an answer."""
RETRY_PAUSE_S: Final = 0.1
MEMORY_WAIT_S: Final = 2.0
"""Timeout of all memory work before a request continues without it."""
FAILURES: Final = 3
"""Consecutive calls that memory did not answer in time, after which it is paused."""
REST_S: Final = 10.0
"""Length of that pause; then one call tries it again."""
COMMIT_ATTEMPTS: Final = 8
COMMIT_PAUSE_S, COMMIT_PAUSE_MAX_S = 0.25, 8.0
"""Attempts to commit an answer while memory is only busy, and the pauses between them."""
SETTLE_WAIT_S: Final = 1.0
"""How long a request waits for a running commit of its space, within memory's timeout."""
UPSTREAMS: Final = 16
KEEPALIVE_CONNECTIONS: Final = 128
KEEPALIVE_S: Final = 4.0
"""Idle time of a connection to an upstream: shorter than servers allow."""
DECODED_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of a decoded answer."""
DECODED_PIECE_BYTES: Final = 64 * 1024
UNFINISHED_ANSWERS: Final = 3
"""Consecutive answers without their dialect's end, after which a server's answers count as not storable."""
LISTED_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of an upstream's list of models."""
