"""The errors, as one tree. A policy's refusal is a field of a report and not an error.

    ElytronError
    ├── InvalidInput              invalid_input              the caller's value is not what the field takes
    │   ├── InvalidJson           invalid_json               not JSON, or JSON that two parsers may read in two ways
    │   ├── EventIdInvalid        event_id_invalid           a stream is to go on behind an id that no event has
    │   ├── ScopeMissing          scope_missing              no space, or a destructive call without a scope
    │   ├── StoreUrlInvalid       store_url_invalid
    │   ├── WordsInvalid          words_invalid              no 12 words of the list, or without their checksum
    │   └── UnreadableFile        unreadable_file            an import file that is not what it says
    ├── NotFound                  not_found
    │   └── AgentDisabled         agent_disabled             the agent is switched off, by the operator or its user
    ├── Conflict                  conflict                   a precondition no longer holds
    │   ├── AlreadyExists         already_exists             it is there, and its key was shown once
    │   ├── IdempotencyConflict   idempotency_conflict       same key, other body
    │   ├── SpaceInUse            space_in_use               a full restore takes an empty space, and this one is not
    │   ├── SpaceIncomplete       space_incomplete           it is being filled, or that was broken off (retryable)
    │   ├── StillRunning          still_running              the first call under this key is not done yet (retryable)
    │   ├── ThreadBusy            thread_busy                others run this agent's thread, or wait for it (retryable)
    │   └── TurnConflict          turn_conflict              same turn id, other content
    ├── SequenceAhead             sequence_ahead             the journal has not come to what a call demands (retryable)
    ├── PreconditionFailed        precondition_failed        a thing is not of the version that its change demands
    ├── LimitExceeded             limit_exceeded
    │   ├── PayloadTooLarge       payload_too_large          more bytes than one request or file may have
    │   └── RateLimited           rate_limited               more calls than a caller may make now (retryable)
    ├── Overloaded                overloaded                 no place for another call now (retryable)
    ├── TransportOff              transport_off              an operator switched this transport of the server off
    ├── Unauthorized              unauthorized               no credential, or none that is known here
    ├── PermissionRefused         permission_refused
    ├── Unsupported               unsupported                an operation, engine or extra that is not there
    │   ├── MissingExtra          missing_extra
    │   └── UnsupportedMedia      unsupported_media          a file of a kind that is not taken in
    ├── StoreError
    │   ├── StoreMissing          store_missing              there is no store, and none was to be made
    │   ├── StoreUnavailable      store_unavailable          cannot be opened, read or written now (retryable)
    │   │   ├── StoreBusy         store_busy                 others held it longer than the wait allows
    │   │   ├── StoreCrowded      store_crowded              its server takes no more connections
    │   │   ├── StoreDeadlock     store_deadlock             its server broke off what was in the way of others
    │   │   └── StoreTimeout      store_timeout              its server broke off what took too long
    │   ├── StoreRefused          store_refused              its server does not let this user in, or is not fit
    │   ├── OutcomeUnknown        outcome_unknown            the connection was cut, and it may be done or not
    │   ├── StoreReadOnly         store_read_only            a change of a store that can only be read here
    │   ├── StoreFull             store_full                 no space left on the device
    │   ├── StoreBudgetExceeded   store_budget_exceeded      more than the store's profile lets it hold
    │   ├── StoreFailed           store_failed               a write or fsync failed; the handle takes no more
    │   ├── StoreClosed           store_closed
    │   ├── StoreForeign          store_foreign              not a store of this program, or of another kind
    │   ├── StoreNewer            store_newer                written by a newer version
    │   └── StoreCorrupt          store_corrupt              damaged bytes were found and not served
    ├── SealError
    │   ├── KeyMissing            key_missing                no key, or not the one that sealed this
    │   ├── KeyDestroyed          key_destroyed              the space was erased by destroying its key
    │   ├── SealBroken            seal_broken                a record was altered, moved or cut
    │   ├── SecretRefused         secret_refused             a user's words or passphrase are not the space's
    │   └── SpaceLocked           space_locked               the space waits for its user's words or passphrase
    ├── ModelError
    │   ├── ModelUnavailable      model_unavailable          a model cannot be reached now (retryable)
    │   └── ModelRefused          model_refused              a model will not answer this, or not as it must
    ├── GatewayRefused            gateway_refused            a Memory Gateway said no, with its HTTP status
    └── Unreachable               unreachable                a server of ours does not answer (retryable)

Messages name the thing and the way out; they never hold a value that may be secret. Names are loaded when they are
first used.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_core.errors.tree": (
            "AgentDisabled AlreadyExists Conflict ElytronError EventIdInvalid GatewayRefused IdempotencyConflict "
            "InvalidInput InvalidJson KeyDestroyed KeyMissing LimitExceeded MissingExtra ModelError "
            "ModelRefused ModelUnavailable NotFound OutcomeUnknown Overloaded PayloadTooLarge "
            "PermissionRefused PreconditionFailed RateLimited ScopeMissing SealBroken SealError SecretRefused "
            "SequenceAhead SpaceIncomplete SpaceInUse SpaceLocked StillRunning StoreBudgetExceeded StoreBusy "
            "StoreClosed StoreCorrupt StoreCrowded StoreDeadlock StoreError StoreFailed StoreForeign StoreFull "
            "StoreMissing StoreNewer StoreReadOnly StoreRefused StoreTimeout StoreUnavailable StoreUrlInvalid "
            "ThreadBusy TransportOff TurnConflict Unauthorized Unreachable UnreadableFile Unsupported "
            "UnsupportedMedia WordsInvalid"
        ),
    },
)
