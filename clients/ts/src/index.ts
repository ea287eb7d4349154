/**
 * Client of the Pannier sidecar. `connect()` first; `usePannierAuthState` for Baileys is in `pannier/baileys`.
 * @packageDocumentation
 */

export { connect, type ConnectOptions } from './connect.js'
export { Pannier, type RawClients } from './pannier.js'
export type { ConnectionStatus, TlsOptions } from './connection.js'
export type { Duration } from './options.js'
export {
  Sessions,
  type ArchiveInfo,
  type CommitOptions,
  type CommitResult,
  type Counts,
  type DeleteOptions,
  type LeaseInfo,
  type RecordQuery,
  type SessionInfo,
  type SessionRecord,
} from './sessions.js'
export {
  Blobs,
  type BlobArchive,
  type BlobInfo,
  type BlobSource,
  type BlobStatus,
  type FenceOption,
  type GenerationStateName,
  type SaveOptions,
  type SaveResult,
  type TransferOptions,
} from './blobs/index.js'
export { Durability, ValueKind, type Attributes } from './gen/pannier/v1/session.js'
export {
  AccessError,
  BadArchiveError,
  BadRequestError,
  ClosedError,
  CorruptBlobError,
  CorruptRecordError,
  DeadlineExceededError,
  ExhaustedError,
  FencedError,
  GenerationGoneError,
  KeyMismatchError,
  NotFoundError,
  PannierError,
  RevisionConflictError,
  SessionHeldError,
  StaleStateError,
  TooLargeError,
  UnavailableError,
  WrongStateError,
} from './errors.js'
