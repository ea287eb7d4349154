// The unary calls on sessions: they need no lease. Revisions, fences and incarnations are safe integers here.

import { randomUUID } from 'node:crypto'
import { forget, placeOf } from './acknowledged.js'
import type { Connection } from './connection.js'
import { CorruptRecordError, KeyMismatchError, makeError } from './errors.js'
import {
  DeleteSessionRequest_Mode,
  SessionServiceService as Service,
  type ArchiveInfo as WireArchive,
  type Attributes,
  type Durability,
  type SessionInfo as WireSession,
  type TypeCount,
  type ValueKind,
  type DeleteSessionRequest,
  type GetSessionResponse,
} from './gen/pannier/v1/session.js'
import { checkKnown } from './options.js'
import { pages } from './pages.js'

/** A record. */
export interface SessionRecord {
  type: string
  id: string
  kind: ValueKind
  value: Uint8Array
  /** The session revision that wrote it. */
  revision: number
}

/** Records of one type. */
export interface Counts {
  type: string
  records: number
  /** Bytes as stored. */
  bytes: number
}

/** Who holds a session. */
export interface LeaseInfo {
  owner: string
  fence: number
  expiresAt: Date | undefined
  /** It has not run out. */
  live: boolean
}

/** A live session. */
export interface SessionInfo {
  namespace: string
  session: string
  incarnation: number
  /** The number of commits so far. */
  revision: number
  attributes: Attributes | undefined
  counts: Counts[]
  lease: LeaseInfo | undefined
  createdAt: Date | undefined
  lastWriteAt: Date | undefined
  /** The newest fence. */
  fence: number
}

/** A soft-deleted session. It is unlinked for good at `purgeAt`, 7 days after `deletedAt`. */
export interface ArchiveInfo {
  namespace: string
  session: string
  incarnation: number
  revision: number
  counts: Counts[]
  deletedAt: Date | undefined
  purgeAt: Date | undefined
}

/** Names records of one type. */
export interface RecordQuery {
  type: string
  ids: string[]
}

/** A commit without a lease. */
export interface CommitOptions {
  puts?: (Omit<SessionRecord, 'revision'> & { /** The record's revision; 0: must be absent. */ ifRevision?: number })[]
  deletes?: { type: string; id: string }[]
  /** Whose commit this is; numbers count per writer. Default: a new UUID. */
  writerId?: string
  /** The writer's last + 1. Default 1. */
  opSeq?: number
  /** The session revision that must be the current one, else RevisionConflictError. */
  expectedRevision?: number
  /** The holder's fence, to write under its lease. Default: no lease may be live, else SessionHeldError. */
  fence?: number
  /** The incarnation that is meant; another there is FencedError. Default: the one that is there at the call. */
  incarnation?: number
  attributes?: Attributes
}

/** What to delete. */
export interface DeleteOptions {
  /** `soft` (default) keeps an archive for 7 days, at most 3 a session; `shred` unlinks records and keys at once. */
  mode?: 'soft' | 'shred'
  /** Only this one: with `shred`, an archive's too. Default: what is there, with `shred` every archive as well. */
  incarnation?: number
}

/** A commit that is in. */
export interface CommitResult {
  baseRevision: number
  revision: number
  /** It had been applied before. */
  replayed: boolean
  durability: Durability
}

/** The session calls of a connection. */
export class Sessions {
  constructor(
    private readonly connection: Connection,
    private readonly namespace: string,
    private readonly timeoutMs: number,
  ) {}

  /** Reads records, without a lease. Missing ones are left out. @throws NotFoundError, CorruptRecordError, UnavailableError */
  async get(session: string, queries: RecordQuery[]): Promise<{ records: SessionRecord[]; revision: number; incarnation: number }> {
    const answer = await this.connection.unary(Service.getRecords, { ...this.#name(session), queries }, this.timeoutMs)
    return {
      records: answer.records.map(record => ({ ...record, revision: Number(record.revision) })),
      revision: Number(answer.revision),
      incarnation: Number(answer.incarnation),
    }
  }

  /** The live sessions of the namespace, in no order. */
  async *list(): AsyncGenerator<SessionInfo, void, undefined> {
    const read = (cursor: string) => this.connection.unary(Service.listSessions, { namespace: this.namespace, cursor, limit: 100 }, this.timeoutMs)
    for await (const { sessions } of pages(read)) for (const session of sessions) yield toSession(session)
  }

  /** All records of a session, or those of one type; nothing is locked meanwhile. `idsOnly` leaves the values out. */
  async *records(session: string, options: { type?: string; idsOnly?: boolean } = {}): AsyncGenerator<SessionRecord, void, undefined> {
    const { type = '', idsOnly = false } = options
    const read = (cursor: string) => this.connection.unary(Service.listRecords, { ...this.#name(session), type, cursor, limit: 0, idsOnly }, this.timeoutMs)
    for await (const page of pages(read)) {
      if (page.corrupt > 0) {
        throw makeError({ code: 'DATA_LOSS', reason: 'CORRUPT_RECORD', message: `${page.corrupt} records cannot be opened`, metadata: type ? { type } : {} })
      }
      for (const record of page.records) yield { ...record, revision: Number(record.revision) }
      if (page.tooLarge.length > 0) {
        throw makeError({ code: 'INVALID_ARGUMENT', reason: 'TOO_LARGE', message: 'a record is too large for this call: open the session to read it' })
      }
    }
  }

  /** One commit, without a lease. @throws SessionHeldError, RevisionConflictError, FencedError, NotFoundError */
  async commit(session: string, options: CommitOptions): Promise<CommitResult> {
    const left = this.#time()
    // Naming what is meant, a repetition after a lost answer cannot write into a newer session; a fence names it as well.
    const incarnation = options.incarnation ?? (options.fence === undefined ? (await this.#find(session, left())).session?.incarnation : 0)
    const answer = await this.connection.unary(
      Service.commitRecords,
      {
        ...this.#name(session),
        writerId: options.writerId ?? randomUUID(),
        opSeq: BigInt(options.opSeq ?? 1),
        puts: (options.puts ?? []).map(({ ifRevision, ...record }) => ({
          record: { ...record, value: Buffer.from(record.value), revision: 0n },
          ifRevision: ifRevision === undefined ? undefined : BigInt(ifRevision),
        })),
        deletes: options.deletes ?? [],
        expectedRevision: options.expectedRevision === undefined ? undefined : BigInt(options.expectedRevision),
        incarnation: BigInt(incarnation ?? 0),
        fence: BigInt(options.fence ?? 0),
        attributes: options.attributes,
        minDurability: 0,
      },
      left(),
    )
    const { baseRevision, revision, replayed, durability } = answer
    return { baseRevision: Number(baseRevision), revision: Number(revision), replayed, durability }
  }

  /** What is known of a session; undefined if there is none. */
  async info(session: string): Promise<SessionInfo | undefined> {
    return toInfo(await this.#find(session, this.timeoutMs))
  }

  /**
   * Deletes a session: true if it was there, and is not any more. The owner's later writes get FencedError; this process may
   * open the name again. Only what was there at the call is deleted, also when it has to be repeated.
   */
  async delete(session: string, options: DeleteOptions = {}): Promise<boolean> {
    checkKnown('delete', options, ['mode', 'incarnation'])
    const { mode = 'soft', incarnation } = options
    const left = this.#time()
    const request = { ...this.#name(session), mode: mode === 'shred' ? DeleteSessionRequest_Mode.MODE_SHRED : DeleteSessionRequest_Mode.MODE_SOFT }
    let meant: bigint[]
    try {
      const found = await this.#find(session, left())
      const there = found.session ? [found.session.incarnation] : []
      if (mode === 'shred') there.push(...found.archives.map(archive => archive.incarnation))
      meant = incarnation === undefined ? there : there.filter(one => one === BigInt(incarnation))
    } catch (error) {
      // What cannot be opened can still be shredded, but not named.
      if (mode !== 'shred' || !(error instanceof CorruptRecordError || error instanceof KeyMismatchError)) throw error
      return this.#shredUnseen({ ...request, incarnation: BigInt(incarnation ?? 0) }, left())
    }
    for (const one of meant) await this.connection.unary(Service.deleteSession, { ...request, incarnation: one }, left())
    forget(this.#place(session), incarnation)
    return meant.length > 0
  }

  /** The archives of one session, or of the namespace. */
  async *deleted(session = ''): AsyncGenerator<ArchiveInfo, void, undefined> {
    const read = (cursor: string) => this.connection.unary(Service.listDeleted, { ...this.#name(session), cursor, limit: 100 }, this.timeoutMs)
    for await (const { archives } of pages(read)) for (const archive of archives) yield toArchive(archive)
  }

  /**
   * Brings an archive back: the newest, or the one named. With `replace` a live session of the name becomes an archive;
   * without it that is a WrongStateError.
   */
  async restore(session: string, options: { incarnation?: number; replace?: boolean } = {}): Promise<SessionInfo | undefined> {
    const left = this.#time()
    let incarnation = options.incarnation ?? 0
    if (incarnation === 0) {
      // Naming it makes a repetition after a lost answer harmless.
      const newest = (await this.#find(session, left())).archives.map(archive => Number(archive.incarnation)).sort((a, b) => b - a)[0]
      incarnation = newest ?? 0
    }
    const request = { ...this.#name(session), incarnation: BigInt(incarnation), replace: options.replace ?? false }
    const answer = await this.connection.unary(Service.restoreSession, request, left())
    return answer.session && toSession(answer.session)
  }

  /** Takes the lease from whoever holds it. True if somebody did. */
  async breakLease(session: string): Promise<boolean> {
    const left = this.#time()
    const before = toInfo(await this.#find(session, left()))
    // Naming the lease that is meant, a repetition after a lost answer breaks no later one.
    const request = { ...this.#name(session), fence: BigInt(before?.fence ?? 0) }
    const { broken } = await this.connection.unary(Service.breakLease, request, left())
    return broken || (before?.lease?.live ?? false)
  }

  async #shredUnseen(request: DeleteSessionRequest, timeoutMs: number): Promise<boolean> {
    const { deleted } = await this.connection.once(Service.deleteSession, request, timeoutMs)
    forget(this.#place(request.session), Number(request.incarnation) || undefined)
    return deleted
  }

  #find(session: string, timeoutMs: number): Promise<GetSessionResponse> {
    return this.connection.unary(Service.getSession, this.#name(session), timeoutMs)
  }

  /** What is left of the time of a call that takes several. */
  #time(): () => number {
    const deadline = Date.now() + this.timeoutMs
    return () => Math.max(1, deadline - Date.now())
  }

  #place(session: string): string {
    return placeOf(this.connection.target, this.namespace, session)
  }

  #name(session: string): { namespace: string; session: string } {
    return { namespace: this.namespace, session }
  }
}

function toCounts(counts: TypeCount[]): Counts[] {
  return counts.map(({ type, records, bytes }) => ({ type, records: Number(records), bytes: Number(bytes) }))
}

function toInfo(found: GetSessionResponse): SessionInfo | undefined {
  return found.exists && found.session ? toSession(found.session) : undefined
}

function toSession(wire: WireSession): SessionInfo {
  const { namespace, session, attributes, lease, createdAt, lastWriteAt } = wire
  return {
    namespace, session, attributes, createdAt, lastWriteAt,
    incarnation: Number(wire.incarnation),
    revision: Number(wire.revision),
    fence: Number(wire.fence),
    counts: toCounts(wire.counts),
    lease: lease && { owner: lease.owner, fence: Number(lease.fence), expiresAt: lease.expiresAt, live: lease.live },
  }
}

function toArchive(wire: WireArchive): ArchiveInfo {
  const { namespace, session, deletedAt, purgeAt } = wire
  return { namespace, session, deletedAt, purgeAt, incarnation: Number(wire.incarnation), revision: Number(wire.revision), counts: toCounts(wire.counts) }
}
