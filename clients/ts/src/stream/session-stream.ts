// A session held open: the lease, reads and commits on it, over as many streams as it takes.
//
// Every call settles by its deadline. A broken stream is attached again with `resume`, and what was not acknowledged is sent
// again, in order, under the same numbers (commit-queue.ts). LeaseLost, and FENCED at a re-attach, are final.

import type { Connection } from '../connection.js'
import { fromDuration } from '../duration.js'
import { closed, deadlineExceeded, fenced, fromStatus, makeError, type PannierError } from '../errors.js'
import { LeaseLost_Reason, OnHeld, type AttachRequest } from '../gen/pannier/v1/session.js'
import { backoff, retried, sleep } from '../waiting.js'
import type { Answer, CommittedAnswer } from './answer-codec.js'
import type { Attach } from './attach.js'
import { bodySize, encodeCommit, type CommitBody } from './commit-codec.js'
import { CommitQueue } from './commit-queue.js'
import { openAttach, type OpenRequest, type OpenResult } from './handshake.js'
import { LeaseWatch } from './lease-watch.js'
import { ReadQueue, type ReadResult } from './read-queue.js'
import {
  ATTACH_AGAIN, COMMIT_LIMIT, COMMIT_TRY_MS, commitTooLarge, draining, GRACE_MS, IN_FLIGHT, READ_TRY_MS, REATTACH_MS, REQUEST_AGAIN,
  staleWriter, tooManyWaiting, TRY_AGAIN, tryTime, unclear, WAITING, WAITING_BYTES,
  type ClearedResult, type SessionListener, type WriteRequest,
} from './requests.js'

const SWEEP_MS = 100
/** After Draining, what is on its way is answered first, if it is quick. */
const DRAIN_MS = 2_000

type State = 'new' | 'attached' | 'detached' | 'ended'

/** See the top of this file. */
export class SessionStream {
  /** The highest revision acknowledged. */
  revision = 0
  fence = 0
  #state: State = 'new'
  #attach: Attach | undefined
  #ending: PannierError | undefined
  #draining = false
  readonly #queue = new CommitQueue<WriteRequest>()
  #waitingBytes = 0
  /** Commits on their way, by seq. */
  readonly #sent = new Map<number, WriteRequest>()
  readonly #reads: ReadQueue
  /** No write is sent again before this, after a failure. */
  #writesNotBefore = 0
  #failures = 0
  #outOfOrderLast: number | undefined
  #sweeping = false
  /** Close is on its way, and who waits for its answer. */
  #closing: { seq: number; answered: () => void } | undefined
  readonly #lease: LeaseWatch

  constructor(
    private over: Connection,
    private readonly request: OpenRequest,
    private readonly listener: SessionListener,
  ) {
    this.#lease = new LeaseWatch(request.leaseTtlMs, () => listener.onSuspend(), () => listener.onResume())
    this.#reads = new ReadQueue((error, attempt) => listener.onRetry(error, attempt), () => this.#pump())
  }

  get connection(): Connection { return this.over }

  /** Goes on over another connection to the same sidecar, under the same lease. */
  move(connection: Connection): void {
    this.over = connection
    this.#break(draining())
  }

  /** Whether the lease may no longer be counted on. */
  get suspended(): boolean {
    return this.#lease.suspended
  }

  /** Takes the lease. Tries again for `timeoutMs` while the sidecar cannot be reached. */
  async open(onHeld: OnHeld, timeoutMs: number): Promise<OpenResult> {
    const deadline = performance.now() + timeoutMs
    const wait = onHeld === OnHeld.ON_HELD_WAIT ? this.request.waitMs : 0
    const open = (): Promise<OpenResult> => this.#open({ ...this.request, onHeld }, Math.max(1, Math.ceil(deadline - performance.now())))
    return retried(open, (failure, pause, attempt) => {
      if (!TRY_AGAIN.has(failure.reason) || performance.now() + pause >= deadline + wait) return false
      this.listener.onRetry(failure, attempt + 1)
      return true
    })
  }

  /** One snapshot of records: ≤ 1 000 ids, ≤ 32 MiB. */
  get(queries: { type: string; ids: string[] }[], timeoutMs: number): Promise<ReadResult> {
    return this.#read({ $case: 'get', value: { queries } }, timeoutMs)
  }

  /** A page of a walk. */
  list(type: string, cursor: string, limit: number, idsOnly: boolean, timeoutMs: number): Promise<ReadResult> {
    return this.#read({ $case: 'list', value: { type, cursor, limit, idsOnly } }, timeoutMs)
  }

  /**
   * All or nothing; in call order. ≤ 20 000 items, ≤ 32 MiB. `applied` is called in the moment of the answer, before any later
   * answer is looked at.
   */
  commit(body: CommitBody, timeoutMs: number, applied?: (answer: CommittedAnswer) => void): Promise<CommittedAnswer> {
    const size = bodySize(body)
    if (size > COMMIT_LIMIT) return Promise.reject(commitTooLarge(size))
    return new Promise((resolve, reject) => this.#write({ body, size, resolve: applied ? answer => { applied(answer); resolve(answer) } : resolve, cleared: undefined, reject }, timeoutMs))
  }

  /** Soft-deletes all records; the lease stays. Keeps its place among the commits. */
  clear(timeoutMs: number): Promise<ClearedResult> {
    return new Promise((cleared, reject) => this.#write({ body: undefined, size: 0, resolve: () => {}, cleared, reject }, timeoutMs))
  }

  /** Waits for what is pending, releases the lease, ends. Always settles within `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs
    while ((this.#queue.items.length > 0 || this.#reads.size > 0) && !this.#isEnded() && performance.now() < deadline) await sleep(5)
    if (this.#isEnded()) return
    const attach = this.#attach
    if (attach && this.#state === 'attached') {
      await new Promise<void>(resolve => {
        const seq = attach.nextSeq()
        this.#closing = { seq, answered: resolve }
        attach.request(seq, READ_TRY_MS, { $case: 'close', value: {} })
        setTimeout(resolve, Math.max(100, deadline - performance.now())).unref()
      })
    }
    this.#end(closed('the session'))
  }

  /** Ends at once, silently; the lease stays with its owner until it runs out. */
  abort(): void {
    this.#end(closed('the session'))
  }

  #isEnded(): boolean { return this.#state === 'ended' }

  #read(op: NonNullable<AttachRequest['op']>, timeoutMs: number): Promise<ReadResult> {
    if (this.#ending) return Promise.reject(this.#ending)
    const result = this.#reads.add(op, timeoutMs)
    this.#pump()
    this.#sweepSoon()
    return result
  }

  #write(write: Pick<WriteRequest, 'body' | 'size' | 'resolve' | 'cleared' | 'reject'>, timeoutMs: number): void {
    if (this.#ending) return write.reject(this.#ending)
    if (this.#queue.items.length >= WAITING || this.#waitingBytes + write.size > WAITING_BYTES + COMMIT_LIMIT) return write.reject(tooManyWaiting())
    this.#waitingBytes += write.size
    this.#queue.add({
      ...write, seq: 0, deadline: performance.now() + timeoutMs, answerBy: 0, timeoutMs,
      last: undefined, opSeq: 0, sent: false, uncertain: false, abandoned: false,
    })
    this.#pump()
    this.#sweepSoon()
  }

  /** Sends what may be sent. */
  #pump(): void {
    const attach = this.#attach
    if (attach === undefined || this.#state !== 'attached') return
    if (this.#draining || attach.worn) {
      if (this.#sent.size === 0 && this.#reads.inFlight === 0) this.#break(draining())
      return
    }
    const now = performance.now()
    if (this.#queue.held && this.#queue.inFlight === 0 && now >= this.#writesNotBefore && !this.#settle()) return
    for (let item = this.#queue.take(IN_FLIGHT); item; item = this.#queue.take(IN_FLIGHT)) this.#sendWrite(attach, item, now)
    if (this.#reads.inFlight === this.#reads.size) return
    for (const { seq, tryMs, op } of this.#reads.take(now, () => attach.nextSeq())) attach.request(seq, tryMs, op)
  }

  /** False if the stream is given up. */
  #settle(): boolean {
    const last = this.#outOfOrderLast
    this.#outOfOrderLast = undefined
    switch (this.#queue.settle(last)) {
      case 'send':
        return true
      case 'reattach':
        this.#break(makeError({ code: 'ABORTED', reason: 'OUT_OF_ORDER', message: 'a new fence is needed to order the commits' }))
        return false
      case 'stale':
        this.#lose(staleWriter())
        return false
    }
  }

  #sendWrite(attach: Attach, item: WriteRequest, now: number): void {
    const seq = attach.nextSeq()
    const timeoutMs = tryTime(item.deadline, COMMIT_TRY_MS, now)
    item.seq = seq
    item.answerBy = now + timeoutMs + GRACE_MS
    this.#sent.set(seq, item)
    if (item.body) for (const message of encodeCommit(seq, timeoutMs, item.opSeq, item.body)) attach.write(message)
    else attach.request(seq, timeoutMs, { $case: 'clear', value: { writerId: '', opSeq: BigInt(item.opSeq), incarnation: 0n } })
  }

  #onAnswer(answer: Answer): void {
    if (answer.seq === 0) return this.#onPush(answer)
    const item = this.#sent.get(answer.seq)
    if (item) this.#onWriteAnswer(item, answer)
    // Closed, or refused: somebody else has the session.
    else if (!this.#reads.answer(answer) && answer.seq === this.#closing?.seq) this.#closing.answered()
    this.#pump()
  }

  #onWriteAnswer(item: WriteRequest, answer: Answer): void {
    this.#sent.delete(item.seq)
    if (answer.case === 'committed') {
      const value = answer.value
      if (!value.replayed && value.baseRevision !== this.revision) this.listener.onForeignWrite()
      if (value.revision > this.revision) this.revision = value.revision
      this.#written(item)
      item.resolve(value)
    } else if (answer.case === 'other' && answer.value?.$case === 'cleared') {
      const value = answer.value.value
      this.fence = Number(value.fence)
      this.revision = Number(value.revision)
      this.#written(item)
      item.cleared?.({ fence: this.fence, incarnation: Number(value.incarnation), revision: this.revision })
    } else if (answer.case === 'other' && answer.value?.$case === 'error') {
      this.#onWriteError(item, fromStatus(answer.value.value))
    }
  }

  #written(item: WriteRequest): void {
    this.#failures = 0
    this.#queue.committed(item)
    this.#waitingBytes -= item.size
  }

  #onWriteError(item: WriteRequest, error: PannierError): void {
    if (error.reason === 'OUT_OF_ORDER') {
      this.#queue.again(item)
      const last = Number(error.metadata.last)
      if (Number.isSafeInteger(last)) this.#outOfOrderLast = last
      return
    }
    if (error.reason === 'FENCED' || error.reason === 'STALE_STATE') {
      this.#queue.refused(item)
      item.reject(error)
      return this.#lose(error)
    }
    // Of what the sidecar did not expect, nobody knows how far it came.
    const unknown = error.outcomeUnknown || error.reason === 'INTERNAL'
    if (unknown || REQUEST_AGAIN.has(error.reason)) {
      item.last = error
      if (unknown) this.#queue.unknown(item)
      else this.#queue.again(item)
      const wait = error.retryAfterMs ?? backoff(this.#failures)
      this.#writesNotBefore = performance.now() + wait
      this.#failures++
      this.listener.onRetry(error, this.#failures)
      setTimeout(() => this.#pump(), wait)
      return
    }
    this.#queue.refused(item)
    this.#waitingBytes -= item.size
    item.reject(error)
  }

  #onPush(answer: Answer): void {
    if (answer.case !== 'other') return
    switch (answer.value?.$case) {
      case 'renewed':
        this.#lease.renewed(fromDuration(answer.value.value.leaseLeft) ?? this.request.leaseTtlMs)
        break
      case 'changed':
        this.listener.onForeignWrite()
        break
      case 'leaseLost':
        this.#lose(fenced(answer.value.value.reason === LeaseLost_Reason.REASON_DELETED ? 'the session was deleted' : 'another owner took the session'))
        break
      case 'draining':
        this.#draining = true
        setTimeout(() => this.#draining && this.#break(draining()), DRAIN_MS).unref()
        this.#pump()
        break
      default:
    }
  }

  async #open(request: OpenRequest, timeoutMs: number): Promise<OpenResult> {
    let opened: OpenResult | undefined
    await openAttach(this.over, request, timeoutMs, (attach, result) => {
      if (this.#isEnded()) attach.drop()
      else this.#attached(attach, result)
      opened = result
      return { onAnswer: answer => this.#attach === attach && this.#onAnswer(answer), onEnd: error => this.#attach === attach && this.#onEnd(error) }
    })
    if (this.#ending) throw this.#ending
    return opened as OpenResult
  }

  #attached(attach: Attach, opened: OpenResult): void {
    const expected = this.revision + (opened.lastOpSeq - this.#queue.known)
    if (!this.#queue.reopened(opened.lastOpSeq) || opened.revision < this.revision) {
      attach.drop()
      return this.#lose(staleWriter())
    }
    const first = this.#state === 'new'
    this.#attach = attach
    this.#state = 'attached'
    this.#draining = false
    this.#failures = 0
    this.#writesNotBefore = 0
    this.fence = opened.fence
    this.revision = opened.revision
    this.#lease.renewed(opened.leaseTtlMs)
    if (!first && opened.revision !== expected) this.listener.onForeignWrite()
    this.#pump()
  }

  #onEnd(error: PannierError | undefined): void {
    if (this.#closing) return this.#closing.answered()
    if (error && !ATTACH_AGAIN.has(error.reason)) return this.#lose(error)
    this.#break(error ?? draining())
  }

  /** This stream is of no more use: another one. */
  #break(error: PannierError): void {
    if (this.#state !== 'attached') return
    this.#state = 'detached'
    this.#attach?.drop()
    this.#attach = undefined
    this.#queue.broken()
    this.#sent.clear()
    this.#reads.broken()
    this.listener.onRetry(error, 0)
    void this.#reattach()
  }

  async #reattach(): Promise<void> {
    for (let attempt = 0; this.#state === 'detached'; attempt++) {
      const resume = { fence: this.fence, revision: this.revision }
      try {
        await this.#open({ ...this.request, minRevision: this.revision, onHeld: OnHeld.ON_HELD_FAIL, mustExist: false, resume, preloadTypes: [] }, REATTACH_MS)
        return
      } catch (error) {
        const failure = error as PannierError
        if (this.#isEnded()) return
        if (failure.reason === 'SESSION_HELD') return this.#lose(fenced('another owner took the session'))
        if (!ATTACH_AGAIN.has(failure.reason)) return this.#lose(failure)
        this.listener.onRetry(failure, attempt + 1)
        await sleep(failure.retryAfterMs ?? backoff(attempt, 50, 1000))
      }
    }
  }

  #lose(error: PannierError): void {
    if (this.#isEnded()) return
    this.#end(error)
    this.listener.onLost(error)
  }

  #end(error: PannierError): void {
    if (this.#isEnded()) return
    this.#state = 'ended'
    this.#ending = error
    this.#closing?.answered()
    this.#attach?.drop()
    this.#attach = undefined
    this.#lease.stop()
    this.#sent.clear()
    this.#reads.end(error)
    for (const item of this.#queue.items.splice(0)) {
      if (!item.abandoned) item.reject(item.sent || item.uncertain ? unclear(error) : error)
    }
  }

  #sweepSoon(): void {
    if (this.#sweeping) return
    this.#sweeping = true
    setTimeout(() => {
      this.#sweeping = false
      this.#sweep()
      if (!this.#isEnded() && (this.#reads.size > 0 || this.#queue.items.length > 0)) this.#sweepSoon()
    }, SWEEP_MS)
  }

  #sweep(): void {
    const now = performance.now()
    let dead = this.#reads.expire(now)
    for (const item of [...this.#queue.items]) {
      if (item.abandoned) continue
      if (now >= item.deadline) {
        const unknown = item.sent || item.uncertain
        if (!this.#queue.abandon(item)) dead = true
        this.#waitingBytes -= item.size
        item.reject(deadlineExceeded('a commit', item.timeoutMs, unknown, item.last))
      } else if (item.sent && now >= item.answerBy) dead = true
    }
    if (dead) this.#break(deadlineExceeded('an answer', READ_TRY_MS, false))
    else this.#pump()
  }
}
