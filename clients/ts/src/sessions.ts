// The unary calls on sessions: they need no lease. Revisions, fences and incarnations are safe integers here.

import type { Connection } from './connection.js'
import { makeError } from './errors.js'
import {
  DeleteSessionRequest_Mode,
  SessionServiceService as Service,
  type ArchiveInfo as WireArchive,
  type Attributes,
  type Durability,
  type SessionInfo as WireSession,
  type TypeCount,
  type ValueKind,
} from './gen/pannier/v1/session.js'
import { randomUUID } from 'node:crypto'

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
  attributes?: Attributes
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
    for (let cursor = ''; ; ) {
      const page = await this.connection.unary(Service.listSessions, { namespace: this.namespace, cursor, limit: 100 }, this.timeoutMs)
      for (const session of page.sessions) yield toSession(session)
      if (page.cursor === '') return
      cursor = page.cursor
    }
  }

  /** All records of a session, or those of one type; nothing is locked meanwhile. `idsOnly` leaves the values out. */
  async *records(session: string, options: { type?: string; idsOnly?: boolean } = {}): AsyncGenerator<SessionRecord, void, undefined> {
    const { type = '', idsOnly = false } = options
    for (let cursor = ''; ; ) {
      const page = await this.connection.unary(Service.listRecords, { ...this.#name(session), type, cursor, limit: 0, idsOnly }, this.timeoutMs)
      if (page.corrupt > 0) {
        throw makeError({ code: 'DATA_LOSS', reason: 'CORRUPT_RECORD', message: `${page.corrupt} records cannot be opened`, metadata: type ? { type } : {} })
      }
      for (const record of page.records) yield { ...record, revision: Number(record.revision) }
      if (page.tooLarge.length > 0) {
        throw makeError({ code: 'INVALID_ARGUMENT', reason: 'TOO_LARGE', message: 'a record is too large for this call: open the session to read it' })
      }
      if (page.cursor === '') return
      cursor = page.cursor
    }
  }

  /** One commit, without a lease. @throws SessionHeldError, RevisionConflictError, NotFoundError */
  async commit(session: string, options: CommitOptions): Promise<CommitResult> {
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
        incarnation: 0n,
        fence: BigInt(options.fence ?? 0),
        attributes: options.attributes,
        minDurability: 0,
      },
      this.timeoutMs,
    )
    const { baseRevision, revision, replayed, durability } = answer
    return { baseRevision: Number(baseRevision), revision: Number(revision), replayed, durability }
  }

  /** What is known of a session; undefined if there is none. */
  async info(session: string): Promise<SessionInfo | undefined> {
    const answer = await this.connection.unary(Service.getSession, this.#name(session), this.timeoutMs)
    return answer.exists && answer.session ? toSession(answer.session) : undefined
  }

  /**
   * Deletes a session; false if there was none. `soft` (default) keeps an archive for 7 days, at most 3 a session; `shred`
   * unlinks records and keys at once, archives too. The owner's later writes get FencedError.
   */
  async delete(session: string, options: { mode?: 'soft' | 'shred' } = {}): Promise<boolean> {
    const shred = options.mode === 'shred'
    // Naming what is meant, a late repetition cannot hit a newer session of the name.
    const there = shred ? undefined : await this.info(session)
    if (!shred && there === undefined) return false
    const mode = shred ? DeleteSessionRequest_Mode.MODE_SHRED : DeleteSessionRequest_Mode.MODE_SOFT
    const request = { ...this.#name(session), mode, incarnation: BigInt(there?.incarnation ?? 0) }
    return (await this.connection.unary(Service.deleteSession, request, this.timeoutMs)).deleted
  }

  /** The archives of one session, or of the namespace. */
  async *deleted(session = ''): AsyncGenerator<ArchiveInfo, void, undefined> {
    for (let cursor = ''; ; ) {
      const page = await this.connection.unary(Service.listDeleted, { ...this.#name(session), cursor, limit: 100 }, this.timeoutMs)
      for (const archive of page.archives) yield toArchive(archive)
      if (page.cursor === '') return
      cursor = page.cursor
    }
  }

  /**
   * Brings an archive back: the newest, or the one named. With `replace` a live session of the name becomes an archive;
   * without it that is a WrongStateError.
   */
  async restore(session: string, options: { incarnation?: number; replace?: boolean } = {}): Promise<SessionInfo | undefined> {
    let incarnation = options.incarnation ?? 0
    if (incarnation === 0) {
      // Naming it makes a repetition after a lost answer harmless.
      const newest = (await this.connection.unary(Service.getSession, this.#name(session), this.timeoutMs)).archives
        .map(archive => Number(archive.incarnation))
        .sort((a, b) => b - a)[0]
      incarnation = newest ?? 0
    }
    const request = { ...this.#name(session), incarnation: BigInt(incarnation), replace: options.replace ?? false }
    const answer = await this.connection.unary(Service.restoreSession, request, this.timeoutMs)
    return answer.session && toSession(answer.session)
  }

  /** Takes the lease from whoever holds it. True if somebody did. */
  async breakLease(session: string): Promise<boolean> {
    // Naming it, a repetition after a lost answer breaks no later lease.
    const fence = BigInt((await this.info(session))?.fence ?? 0)
    return (await this.connection.unary(Service.breakLease, { ...this.#name(session), fence }, this.timeoutMs)).broken
  }

  #name(session: string): { namespace: string; session: string } {
    return { namespace: this.namespace, session }
  }
}

function toCounts(counts: TypeCount[]): Counts[] {
  return counts.map(({ type, records, bytes }) => ({ type, records: Number(records), bytes: Number(bytes) }))
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
