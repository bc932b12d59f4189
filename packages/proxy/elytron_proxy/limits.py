"""Limits of the memory proxy."""

from typing import Final

REQUEST_BYTES: Final = 64 * 1024 * 1024
"""A request with its images."""
REQUEST_WAIT_S: Final = 60.0
"""Time limit for the arrival of a request's body."""
READ_AT_ONCE_BYTES: Final = 256 * 1024
"""A longer request is read and written in a thread."""
RELAY_BYTES: Final = 1024 * 1024
"""Of one stream, what waits for the end of its event before it goes on; beyond, bytes pass as they come."""
WHOLE_BYTES: Final = 8 * 1024 * 1024
"""An answer that comes at once is read for memory up to this size."""
ANSWER_CHARS: Final = 1_000_000
"""Text of an answer that is kept as evidence; of a longer one nothing is."""
CALL_NAME_CHARS: Final = 64 * 1024
"""Names of the tools that one answer calls."""
BLOCK_CHARS: Final = 1_500
"""Default size of the block: little beside a chat, so that most of a request stays cached."""
BLOCKS: Final = 4_096
"""Blocks of user turns that are held in memory."""
BLOCKS_BEFORE: Final = 16
"""Earlier turns with tools whose blocks stay in their places."""
QUOTED: Final = 8
QUOTED_CHARS: Final = 40
"""Last turns that a task of a program may quote, and how long one must be to tell."""
OPEN_TURN_TTL_S: Final = 24 * 3600
"""So long an answer completes the turn whose tools ran; later it is a turn of its own."""
NODE_TTL_S: Final = 90 * 24 * 3600
"""So long a conversation is known by its messages; later it counts as a new one."""
RESPONSE_TTL_S: Final = 30 * 24 * 3600
"""So long a stored response can be continued."""
RESPONSE_CHAIN: Final = 256
"""Responses that one request may continue, one behind the other."""
RESPONSE_INPUT_BYTES: Final = 16 * 1024 * 1024
INPUT_ITEMS: Final = 100
"""Items on a page of a stored response's input."""
AUDITS: Final = 32
"""Blocks that the audit keeps of one space, if it is switched on."""
REGISTRIES: Final = 1_024
"""Sets of tools that are remembered as registered."""
TOOLS: Final = 128
"""Tools of one request that are registered; of more, none are."""
FINISH_S: Final = 600.0
"""Time for which an answer is read on after its client left, if asked for."""
ERROR_BYTES: Final = 64 * 1024
"""An upstream's refusal is read up to this size, to see whether sealed reasoning is its reason."""
CONNECT_S: Final = 10.0
SILENCE_S: Final = 600.0
"""The longest silence of an upstream, before its answer and within it."""
ATTEMPTS: Final = 2
"""Number of times that a request is sent without a byte of an answer."""
RETRY_PAUSE_S: Final = 0.1
MEMORY_WAIT_S: Final = 2.0
"""Time limit of all that memory does before a request goes on without it."""
FAILURES: Final = 3
"""Calls in a row that memory did not answer in time, after which it is asked nothing for a while."""
REST_S: Final = 10.0
"""Length of that while; then one call asks it again."""
COMMIT_ATTEMPTS: Final = 8
COMMIT_PAUSE_S, COMMIT_PAUSE_MAX_S = 0.25, 8.0
"""Number of attempts to commit an answer while memory is only busy, and the pauses between."""
SETTLE_WAIT_S: Final = 1.0
"""Time for which a request waits for a running commit of its space, of the time that memory has."""
UPSTREAMS: Final = 16
KEEPALIVE_CONNECTIONS: Final = 128
KEEPALIVE_S: Final = 4.0
"""Idle time of a connection to an upstream: less than servers allow."""
DECODED_BYTES: Final = 256 * 1024 * 1024
"""An answer without its encoding."""
DECODED_PIECE_BYTES: Final = 64 * 1024
UNFINISHED_ANSWERS: Final = 3
"""Answers in a row that did not end as their dialect does, after which a server's answers count as not storable."""
LISTED_BYTES: Final = 4 * 1024 * 1024
"""An upstream's list of models."""
