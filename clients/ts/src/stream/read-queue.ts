// Reads of a session: which wait, which are on their way, and how their replies are put together. A read may be sent again at
// any time, so a failure that can pass is tried again until the read's own deadline.

import { deadlineExceeded, fromStatus, makeError, type PannierError } from '../errors.js'
import type { AttachRequest, Page } from '../gen/pannier/v1/session.js'
import { backoff } from '../waiting.js'
import type { Answer, StoredFragment, StoredRecord } from './answer-codec.js'
import { Gathered, GRACE_MS, READ_TRY_MS, REQUEST_AGAIN, tryTime } from './requests.js'

/** What a read gives. */
export interface ReadResult {
  records: StoredRecord[]
  /** The session's revision at the snapshot, of a Get. */
  revision: number
  /** Where the walk goes on; '' at its end. */
  cursor: string
  /** Records of a page that could not be opened. */
  corrupt: number
}

/** A Get or List, ready to be sent. */
export interface ReadRequest {
  readonly op: NonNullable<AttachRequest['op']>
  /** On the present stream; 0 when it is not on its way. */
  seq: number
  /** Of this try. */
  tryMs: number
}

interface Waiting extends ReadRequest {
  deadline: number
  answerBy: number
  readonly timeoutMs: number
  /** Not before this, after a failure. */
  notBefore: number
  attempt: number
  last: PannierError | undefined
  gathered: Gathered
  readonly resolve: (result: ReadResult) => void
  readonly reject: (error: PannierError) => void
}

/** On their way at once. */
const IN_FLIGHT = 128

/** See the top of this file. */
export class ReadQueue {
  readonly #all = new Set<Waiting>()
  readonly #sent = new Map<number, Waiting>()

  /** `onRetry` is told of each failure; `pump` is called when a read may be sent again. */
  constructor(
    private readonly onRetry: (error: PannierError, attempt: number) => void,
    private readonly pump: () => void,
  ) {}

  get size(): number {
    return this.#all.size
  }

  get inFlight(): number {
    return this.#sent.size
  }

  add(op: ReadRequest['op'], timeoutMs: number): Promise<ReadResult> {
    return new Promise((resolve, reject) => {
      this.#all.add({
        op, timeoutMs, resolve, reject, seq: 0, tryMs: 0, deadline: performance.now() + timeoutMs, answerBy: 0, notBefore: 0, attempt: 0,
        last: undefined, gathered: new Gathered(),
      })
    })
  }

  /** Those to be sent now; `nextSeq` numbers them. */
  *take(now: number, nextSeq: () => number): Generator<ReadRequest> {
    if (this.#sent.size === this.#all.size) return
    for (const read of this.#all) {
      if (this.#sent.size >= IN_FLIGHT) return
      if (read.seq !== 0 || read.notBefore > now) continue
      read.seq = nextSeq()
      read.tryMs = tryTime(read.deadline, READ_TRY_MS, now)
      read.answerBy = now + read.tryMs + GRACE_MS
      this.#sent.set(read.seq, read)
      yield read
    }
  }

  /** Handles an answer to a read; false if it belongs to none. */
  answer(answer: Answer): boolean {
    const read = this.#sent.get(answer.seq)
    if (read === undefined) return false
    try {
      if (answer.case === 'records') {
        read.gathered.add(answer.value)
        if (!answer.value.more) this.#done(read, { revision: answer.value.revision, cursor: '', corrupt: 0 })
      } else if (answer.case === 'other' && answer.value?.$case === 'page') {
        const page = answer.value.value
        read.gathered.add(plain(page))
        if (!page.more) this.#done(read, { revision: 0, cursor: page.cursor, corrupt: page.corrupt })
      } else if (answer.case === 'other' && answer.value?.$case === 'error') {
        this.#failed(read, fromStatus(answer.value.value))
      }
    } catch (cause) {
      this.#failed(read, makeError({ code: 'INTERNAL', reason: 'PROTOCOL', message: 'the answer cannot be put together', cause }))
    }
    return true
  }

  /** The stream broke: what was on its way is sent again. */
  broken(): void {
    for (const read of this.#sent.values()) {
      read.seq = 0
      read.gathered = new Gathered()
    }
    this.#sent.clear()
  }

  /** Rejects what is past its deadline. True if an answer is overdue: the stream is dead. */
  expire(now: number): boolean {
    let dead = false
    for (const read of this.#all) {
      if (now >= read.deadline) {
        this.#sent.delete(read.seq)
        this.#all.delete(read)
        read.reject(deadlineExceeded('a read', read.timeoutMs, false, read.last))
      } else if (read.seq !== 0 && now >= read.answerBy) dead = true
    }
    return dead
  }

  /** Rejects all. */
  end(error: PannierError): void {
    const all = [...this.#all]
    this.#all.clear()
    this.#sent.clear()
    for (const read of all) read.reject(error)
  }

  #done(read: Waiting, rest: Omit<ReadResult, 'records'>): void {
    this.#sent.delete(read.seq)
    this.#all.delete(read)
    read.resolve({ records: read.gathered.records, ...rest })
  }

  #failed(read: Waiting, error: PannierError): void {
    this.#sent.delete(read.seq)
    read.seq = 0
    const wait = error.retryAfterMs ?? backoff(read.attempt)
    const now = performance.now()
    if (!REQUEST_AGAIN.has(error.reason) || now + wait >= read.deadline) {
      this.#all.delete(read)
      read.reject(error)
      return
    }
    read.last = error
    read.attempt++
    read.notBefore = now + wait
    read.gathered = new Gathered()
    this.onRetry(error, read.attempt)
    setTimeout(this.pump, wait + 1)
  }
}

/** A generated Page in the form that Get's answers have. */
function plain(page: Page): { records: StoredRecord[]; fragments: StoredFragment[] } {
  return {
    records: page.records.map(({ revision, value, ...rest }) => ({ ...rest, value: asBuffer(value), revision: Number(revision) })),
    fragments: page.fragments.map(({ type, id, kind, data, revision, offset, total }) => ({
      type, id, kind, value: asBuffer(data), revision: Number(revision), offset: Number(offset), total: Number(total),
    })),
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
