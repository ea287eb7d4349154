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
export { Dedup, type ClaimItem, type ClaimOptions } from './dedup/dedup.js'
export { Claim, type ClaimResult, type CompleteResult, type ExtendResult, type ReleaseResult } from './dedup/claim.js'
export type { RunOptions, RunResult, Work, WorkContext } from './dedup/run.js'
export {
  Conversations,
  type AdvanceOptions,
  type AdvanceResult,
  type Conversation,
  type ConversationSummary,
  type Fields,
  type FieldsOf,
} from './conversations/conversations.js'
export { Caps, type ConsumeOptions } from './caps/caps.js'
export type {
  CapPolicy,
  FixedRule,
  GcraRule,
  Preset,
  PresetRule,
  RollingRule,
  Rule,
  Scope,
  StoredPolicy,
  UniqueRule,
} from './caps/policy.js'
export type { CapUsage, ConfirmResult, ConsumeResult, PeekResult, PolicyPeek, RefundResult, Subject } from './caps/results.js'
export { Schedule, type CallOptions, type DeadSelection } from './schedule/schedule.js'
export { Crons, type CronInfo, type CronOptions, type CronResult } from './schedule/crons.js'
export type { CapGate, IngestItem, JobContent, JobOptions, RetryPolicy } from './schedule/spec.js'
export type {
  CancelResult,
  DeadReason,
  EnqueueResult,
  IngestResult,
  JobInfo,
  JobState,
  Limiter,
  QueueInfo,
  QueueSettings,
  RescheduleResult,
  Retention,
} from './schedule/results.js'
export type { QueueEvent } from './schedule/watch.js'
export { Worker, type WorkerEvents, type WorkerOptions, type WorkerStatus } from './worker/worker.js'
export { FailJob, Job, JobCancelledError, JobContext, ReleaseJob, RetryJob, type Handler } from './worker/job.js'
export type { Json, Value } from './value.js'
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
