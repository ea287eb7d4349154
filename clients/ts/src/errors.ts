// One exception tree. Every failed call rejects with a PannierError that says why (`reason`), whether trying again can help
// (`retryable`), whether a write may have happened all the same (`outcomeUnknown`), and what to do next (`hint`).

import { status as GrpcCode, type ServiceError } from '@grpc/grpc-js'
import { fromDuration } from './duration.js'
import { BadRequest, ErrorInfo, RetryInfo, Status } from './gen/pannier/v1/status.js'

/** What an error is made of. */
export interface ErrorFields {
  /** gRPC status name, such as `UNAVAILABLE`. */
  code: string
  /** Machine-readable cause, such as `FENCED` or `SESSION_HELD`. */
  reason: string
  /** For a person. Never holds an id, a name or a value of yours. */
  message: string
  metadata?: Readonly<Record<string, string>>
  /** Wait at least this long before trying again, in milliseconds. */
  retryAfterMs?: number | undefined
  /** The wrong field, of INVALID_ARGUMENT. */
  field?: string | undefined
  cause?: unknown
}

const RETRYABLE = new Set([
  'BUSY',
  'TOO_MANY_IN_FLIGHT',
  'VALKEY_UNREACHABLE',
  'STARTING',
  'DRAINING',
  'DEADLINE_EXCEEDED',
  'SIDECAR_UNREACHABLE',
  'VALKEY_OUT_OF_MEMORY',
  'VALKEY_REFUSES_WRITES',
  'STORE_CHANGED',
  'SESSION_HELD',
])

const HINTS: Readonly<Record<string, string>> = {
  FENCED: 'Another owner took this session, or it was deleted. Close this socket; open the session again only if this process is to own it.',
  POLICY_NOT_FOUND: 'There is no cap policy of this name: caps.setPolicy makes one, caps.listPolicies names them.',
  SESSION_HELD: "Another process holds this session. Stop it, wait for `until`, or open with onHeld: 'takeOver'.",
  STALE_STATE: 'The stored session is older than what was acknowledged: an old copy of the database was put back. Do not connect with it; restore the newest copy. If another process shredded it on purpose: restart this one, or call sessions.delete here.',
  CORRUPT_RECORD: 'A stored record cannot be opened. Do not start over: restore it from a backup, or restore an archive of the session.',
  CORRUPT_BLOB: 'This generation cannot be opened: look at `blobs.generations()` and roll back to one before it.',
  GENERATION_GONE: 'It was deleted, rolled back or replaced meanwhile: look at `blobs.generations()`.',
  BAD_ARCHIVE: 'Nothing was changed: the last good archive is still there.',
  SOURCE_CHANGED: 'Save a copy that nobody writes to.',
  KEY_MISMATCH: 'The keyring of the sidecar does not open this session: start the sidecar with the keyring that wrote it.',
  NEWER_FORMAT: 'Written by a newer Pannier: upgrade the sidecar.',
  WRONG_STATE: 'Look at the session with `pannier sessions show` first.',
  TOO_LARGE: 'A value may have 16 MiB, a commit 32 MiB, a unary call 4 MiB.',
  VALKEY_UNREACHABLE: 'The sidecar cannot reach Valkey: its log says why.',
  VALKEY_OUT_OF_MEMORY: 'Valkey is full: raise its maxmemory. Nothing was lost; reads go on.',
  VALKEY_REFUSES_WRITES: 'Valkey takes no writes, as when its disk is full: its log and `INFO persistence` say why. Nothing was lost; reads go on.',
  SIDECAR_UNREACHABLE: 'Start a sidecar with `pannier serve`.',
  STARTING: 'The sidecar is not ready yet: its log says what it waits for.',
  DRAINING: 'The sidecar is stopping: start the next one.',
  STORE_CHANGED: 'The sidecar sees another database than before: check its --valkey-url.',
  UNAUTHENTICATED: 'Give a valid token: connect({ token }), connect({ tokenFile }) or PANNIER_TOKEN_FILE. `pannier tokens add` makes one.',
  PERMISSION_DENIED: 'The token lacks a scope (see the message), or the user of this process may not use the socket (--allow-uid).',
  TLS_FAILED: "Give what the sidecar's certificate was signed by: connect({ tls: { ca } }); serverName where it is for another name than the address; cert and key where the sidecar asks for them.",
  UNIMPLEMENTED: 'The sidecar is older than this client: upgrade it.',
  OUTDATED_STATE: 'clear() was called: take a new state from usePannierAuthState.',
}

/** A failed call. */
export class PannierError extends Error {
  override readonly name: string = 'PannierError'
  readonly code: string
  readonly reason: string
  /** The same call may succeed later. */
  readonly retryable: boolean
  /** What to do next, for a person. */
  readonly hint: string | undefined
  readonly metadata: Readonly<Record<string, string>>
  /** A write may have happened all the same. */
  readonly outcomeUnknown: boolean
  readonly retryAfterMs: number | undefined
  readonly field: string | undefined

  constructor(fields: ErrorFields) {
    super(fields.message, fields.cause === undefined ? undefined : { cause: fields.cause })
    this.code = fields.code
    this.reason = fields.reason
    this.metadata = fields.metadata ?? {}
    this.retryable = RETRYABLE.has(fields.reason)
    this.hint = HINTS[fields.reason]
    this.outcomeUnknown = this.metadata.outcome_unknown === 'true'
    this.retryAfterMs = fields.retryAfterMs
    this.field = fields.field
  }
}

/** INVALID_ARGUMENT: `field` names what is wrong. */
export class BadRequestError extends PannierError { override readonly name: string = 'BadRequestError' }
/** TOO_LARGE: a value, message or commit is over its limit. */
export class TooLargeError extends BadRequestError { override readonly name = 'TooLargeError' }
/** NOT_FOUND: there is no such session, archive, cap policy or job. */
export class NotFoundError extends PannierError { override readonly name = 'NotFoundError' }
/** FENCED: a newer owner, or a deletion, came between. Final for this handle. */
export class FencedError extends PannierError { override readonly name = 'FencedError' }
/** REVISION_CONFLICT: a compare-and-set lost; nothing was written. */
export class RevisionConflictError extends PannierError { override readonly name = 'RevisionConflictError' }
/** SESSION_HELD: another owner's lease is live. */
export class SessionHeldError extends PannierError {
  override readonly name = 'SessionHeldError'
  /** Who holds it, if known. */
  get owner(): string | undefined { return this.metadata.owner }
  /** When that lease runs out, if known. */
  get until(): Date | undefined { return this.metadata.until === undefined ? undefined : new Date(this.metadata.until) }
}
/** STALE_STATE: the store is behind what was acknowledged. */
export class StaleStateError extends PannierError { override readonly name = 'StaleStateError' }
/** KEY_MISMATCH: the sidecar's keyring is not the one that wrote this. */
export class KeyMismatchError extends PannierError { override readonly name = 'KeyMismatchError' }
/** WRONG_STATE: what is there does not allow this. */
export class WrongStateError extends PannierError { override readonly name = 'WrongStateError' }
/** CORRUPT_RECORD: a stored record cannot be opened. Never the same as missing. */
export class CorruptRecordError extends PannierError {
  override readonly name = 'CorruptRecordError'
  /** The record's type, if known. */
  get type(): string | undefined { return this.metadata.type }
}
/** CORRUPT_BLOB: what is stored cannot be opened as it was saved. Never the same as missing. */
export class CorruptBlobError extends PannierError { override readonly name = 'CorruptBlobError' }
/** GENERATION_GONE: it is not kept any more; or a save was overtaken by a deletion, a rollback or a restore. */
export class GenerationGoneError extends PannierError { override readonly name = 'GenerationGoneError' }
/** BAD_ARCHIVE: it is broken, or not what it should be. It was not stored, and not restored. */
export class BadArchiveError extends BadRequestError { override readonly name = 'BadArchiveError' }
/** RESOURCE_EXHAUSTED: Valkey is full, or a queue or quota is. */
export class ExhaustedError extends PannierError { override readonly name = 'ExhaustedError' }
/** UNAVAILABLE: the sidecar or its Valkey cannot be reached now, or takes no writes. Says nothing about what is stored. */
export class UnavailableError extends PannierError { override readonly name = 'UnavailableError' }
/** DEADLINE_EXCEEDED. */
export class DeadlineExceededError extends PannierError { override readonly name = 'DeadlineExceededError' }
/** UNAUTHENTICATED, PERMISSION_DENIED or TLS_FAILED. */
export class AccessError extends PannierError {
  override readonly name = 'AccessError'
  /** The scope that the token lacks, if that is why: `schedule`, say; `namespace` for one with the call's namespace. */
  get scope(): string | undefined { return this.metadata.scope }
}
/** The connection or handle was closed by this process. */
export class ClosedError extends PannierError { override readonly name = 'ClosedError' }

const BY_REASON: Readonly<Record<string, new (fields: ErrorFields) => PannierError>> = {
  BAD_FIELD: BadRequestError,
  PROTOCOL: BadRequestError,
  TOO_LARGE: TooLargeError,
  SESSION_NOT_FOUND: NotFoundError,
  ARCHIVE_NOT_FOUND: NotFoundError,
  POLICY_NOT_FOUND: NotFoundError,
  JOB_NOT_FOUND: NotFoundError,
  FENCED: FencedError,
  OUTDATED_STATE: FencedError,
  REVISION_CONFLICT: RevisionConflictError,
  SESSION_HELD: SessionHeldError,
  STALE_STATE: StaleStateError,
  KEY_MISMATCH: KeyMismatchError,
  WRONG_STATE: WrongStateError,
  CORRUPT_RECORD: CorruptRecordError,
  BLOB_NOT_FOUND: NotFoundError,
  CORRUPT_BLOB: CorruptBlobError,
  GENERATION_GONE: GenerationGoneError,
  BAD_ARCHIVE: BadArchiveError,
  VALKEY_OUT_OF_MEMORY: ExhaustedError,
  TOO_MANY_IN_FLIGHT: ExhaustedError,
  QUOTA: ExhaustedError,
  VALKEY_UNREACHABLE: UnavailableError,
  VALKEY_REFUSES_WRITES: UnavailableError,
  STARTING: UnavailableError,
  DRAINING: UnavailableError,
  STORE_CHANGED: UnavailableError,
  SIDECAR_UNREACHABLE: UnavailableError,
  DEADLINE_EXCEEDED: DeadlineExceededError,
  UNAUTHENTICATED: AccessError,
  PERMISSION_DENIED: AccessError,
  TLS_FAILED: AccessError,
  CLOSED: ClosedError,
}

/** The error for a reason. */
export function makeError(fields: ErrorFields): PannierError {
  const Class = BY_REASON[fields.reason] ?? PannierError
  return new Class(fields)
}

/** What a status without details means: it was not made by the sidecar's handlers but on the way to them. */
const REASON_OF_CODE: Readonly<Record<string, string>> = {
  UNAVAILABLE: 'SIDECAR_UNREACHABLE',
  DEADLINE_EXCEEDED: 'DEADLINE_EXCEEDED',
  UNAUTHENTICATED: 'UNAUTHENTICATED',
  PERMISSION_DENIED: 'PERMISSION_DENIED',
  CANCELLED: 'SIDECAR_UNREACHABLE',
  // A connection that breaks in the middle of an answer.
  INTERNAL: 'SIDECAR_UNREACHABLE',
  UNKNOWN: 'SIDECAR_UNREACHABLE',
}

/** Reads a `google.rpc.Status` as it comes inside streams and in trailers. */
export function fromStatus(value: Status, cause?: unknown): PannierError {
  const code = GrpcCode[value.code] ?? 'UNKNOWN'
  const fields: ErrorFields = { code, reason: code, message: value.message, cause }
  for (const detail of value.details) {
    if (detail.typeUrl.endsWith('/google.rpc.ErrorInfo')) {
      const info = ErrorInfo.decode(detail.value)
      fields.reason = info.reason
      fields.metadata = Object.fromEntries(Object.entries(info.metadata))
    } else if (detail.typeUrl.endsWith('/google.rpc.BadRequest')) {
      fields.field = BadRequest.decode(detail.value).fieldViolations[0]?.field
    } else if (detail.typeUrl.endsWith('/google.rpc.RetryInfo')) {
      fields.retryAfterMs = fromDuration(RetryInfo.decode(detail.value).retryDelay)
    }
  }
  return makeError(fields)
}

/** Reads the error of a gRPC call. */
export function fromService(error: ServiceError): PannierError {
  const details = error.metadata?.get('grpc-status-details-bin')[0]
  return fromGrpc(error.code, error.details || error.message, details instanceof Uint8Array ? details : undefined, error)
}

/** The same, from its parts; `details`: an encoded google.rpc.Status. */
export function fromGrpc(status: number, message: string, details?: Uint8Array, cause?: unknown): PannierError {
  if (details) {
    try {
      return fromStatus(Status.decode(details), cause)
    } catch {
      // Not ours: the bare code is all there is.
    }
  }
  const code = GrpcCode[status] ?? 'UNKNOWN'
  return makeError({ code, reason: REASON_OF_CODE[code] ?? code, message, cause })
}

/** A wait in this client ended first. */
export function deadlineExceeded(what: string, ms: number, outcomeUnknown: boolean, cause?: unknown): PannierError {
  const why = cause instanceof Error ? `; the last try failed with: ${cause.message}` : ''
  return makeError({
    code: 'DEADLINE_EXCEEDED',
    reason: 'DEADLINE_EXCEEDED',
    message: `${what} took longer than ${ms} ms${why}`,
    metadata: outcomeUnknown ? { outcome_unknown: 'true' } : {},
    cause,
  })
}

/** A value that the sidecar would refuse. `field` is the request's, as the sidecar names it. */
export function badField(field: string, what: string): PannierError {
  return makeError({ code: 'INVALID_ARGUMENT', reason: 'BAD_FIELD', message: `${field}: ${what}`, field })
}

/** The same, for being too much. */
export function tooLarge(field: string, what: string): PannierError {
  return makeError({ code: 'INVALID_ARGUMENT', reason: 'TOO_LARGE', message: `${field}: ${what}`, field })
}

/** This side closed it. */
export function closed(what: string): PannierError {
  return makeError({ code: 'CANCELLED', reason: 'CLOSED', message: `${what} is closed` })
}

/** The handle's lease is gone; every later call gets this. */
export function fenced(message: string): PannierError {
  return makeError({ code: 'ABORTED', reason: 'FENCED', message })
}
