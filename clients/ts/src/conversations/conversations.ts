// Where each chat is: a step and a few fields, with a sliding time to live, a ceiling if wanted, and compare-and-set.

import type { Connection } from '../connection.js'
import { ConversationServiceService as Service } from '../gen/pannier/v1/conversation.js'
import { span } from '../limits.js'
import { checkKnown, type Duration } from '../options.js'
import { pages } from '../pages.js'
import type { Pipe } from '../pipe/pipe.js'
import type { Value } from '../value.js'
import { ADVANCE, encodeAdvance, encodeGet, encodeTouch, GET, RESET, TOUCH } from './codec.js'

/** Fields by name: a name has 1..128 bytes. A value is a text, bytes, or anything of JSON, and comes back as what it was. */
export type Fields = { readonly [name: string]: Value }

/** What a type of fields may have: a Value each. */
export type FieldsOf<F> = { readonly [Name in keyof F]: Value }

/** Where a chat is. A conversation that is missing, silent for its `ttl`, or past its ceiling is idle: `exists` false. Never an error. */
export type Conversation<F extends FieldsOf<F> = Fields> =
  | {
      readonly exists: true
      readonly step: string
      /** What was set so far: any of them may be missing. An object without prototype. */
      readonly fields: Partial<F>
      /** Rises with every change, never used twice for an id. */
      readonly version: number
      readonly startedAt: Date
      /** The last `advance`. */
      readonly updatedAt: Date
      /** Idle from then on, unless something happens before. By the server's clock. */
      readonly expiresAt: Date
      /** The ceiling: idle from then on whatever happens. Undefined: no `maxAge` was given. */
      readonly endsAt: Date | undefined
    }
  | {
      readonly exists: false
      readonly step: 'idle'
      readonly fields: { readonly [name in keyof F]?: undefined }
      readonly version: 0
      readonly startedAt?: undefined
      readonly updatedAt?: undefined
      readonly expiresAt?: undefined
      readonly endsAt?: undefined
    }

/** How to advance. */
export interface AdvanceOptions {
  /** Silence after which the conversation is idle: 1 ms..400 days. Default 30 min. */
  ttl?: Duration
  /** The ceiling, counted from the conversation's start: 1 ms..400 days; given again, the new one holds. Default: as it was. */
  maxAge?: Duration
  /** The version that was read; another → `conflict`. 0: it must be idle. Not with `expectedSteps`. */
  expectedVersion?: number
  /** 1..32 steps; the current step is none of them → `conflict`. 'idle' stands for a conversation that does not exist, too. */
  expectedSteps?: readonly string[]
  /** Fields to take away; one that is not there does no harm. */
  unset?: readonly string[]
  /** Only the fields given now stay. Default: the others stay, too. */
  replace?: boolean
  /** Of this call, retries included. Default that of `connect`. */
  timeout?: Duration
}

/**
 * What became of it, and the state as it is now. `advanced`: written. `conflict`: what was expected does not hold; nothing was
 * written. `ceiling`: the conversation had reached `maxAge` and was ended; nothing was written, the next `advance` begins a new one.
 */
export interface AdvanceResult<F extends FieldsOf<F> = Fields> {
  readonly outcome: 'advanced' | 'conflict' | 'ceiling'
  readonly state: Conversation<F>
  /** An earlier try of this very call had done it; `state` may have others' changes, too. */
  readonly replayed: boolean
}

/** A conversation in a listing. */
export interface ConversationSummary {
  readonly id: string
  readonly step: string
  readonly version: number
  readonly startedAt: Date | undefined
  readonly updatedAt: Date | undefined
  readonly expiresAt: Date | undefined
  readonly endsAt: Date | undefined
  /** How many fields there are. */
  readonly fields: number
  /** Bytes of their names and values. */
  readonly bytes: number
}

const ADVANCE_OPTIONS = ['ttl', 'maxAge', 'expectedVersion', 'expectedSteps', 'unset', 'replace', 'timeout'] as const
const NO_FIELDS: Fields = {}
const NO_OPTIONS: Readonly<AdvanceOptions> = {}
const NONE: readonly string[] = []

/**
 * Conversations. Ids: 1..512 bytes of UTF-8, any characters. Errors of every call: BadRequestError, UnavailableError,
 * DeadlineExceededError, KeyMismatchError, CorruptRecordError (never the same as idle), ExhaustedError (nothing was written).
 */
export class Conversations {
  readonly #pipe: Pipe
  readonly #connection: Connection
  readonly #namespace: string

  /** @internal */
  constructor(pipe: Pipe, connection: Connection, namespace: string) {
    this.#pipe = pipe
    this.#connection = connection
    this.#namespace = namespace
  }

  /** Reads a conversation; does not touch its time to live. */
  async get<F extends FieldsOf<F> = Fields>(id: string, options: { timeout?: Duration } = {}): Promise<Conversation<F>> {
    checkKnown('get', options, ['timeout'])
    return (await this.#pipe.call(GET, encodeGet(this.#namespace, id), this.#pipe.timeout('get', options.timeout))) as Conversation<F>
  }

  /**
   * Changes a conversation, or begins one. `step`: 1..128 bytes; undefined: it stays ('idle' when the conversation begins).
   * `fields` are set, the others stay; ≤ 1 000 fields, ≤ 256 KiB names and values together (TooLargeError). They are read before
   * the call returns. Changes at the same time are all kept, one after the other.
   */
  async advance<F extends FieldsOf<F> = Fields>(
    id: string,
    step?: string,
    fields: Partial<F> = NO_FIELDS as Partial<F>,
    options: AdvanceOptions = NO_OPTIONS,
  ): Promise<AdvanceResult<F>> {
    checkKnown('advance', options, ADVANCE_OPTIONS)
    const body = encodeAdvance(this.#namespace, {
      id, step, fields: fields as Fields,
      unset: options.unset ?? NONE,
      replace: options.replace ?? false,
      ttlMs: span('ttl', options.ttl),
      maxAgeMs: span('max_age', options.maxAge),
      expectedVersion: options.expectedVersion,
      expectedSteps: options.expectedSteps,
    })
    return (await this.#pipe.call(ADVANCE, body, this.#pipe.timeout('advance', options.timeout))) as AdvanceResult<F>
  }

  /** Lets the time to live begin anew without a change: `ttl` 1 ms..400 days, default 30 min. An idle one stays so. */
  async touch<F extends FieldsOf<F> = Fields>(id: string, options: { ttl?: Duration; timeout?: Duration } = {}): Promise<Conversation<F>> {
    checkKnown('touch', options, ['ttl', 'timeout'])
    const body = encodeTouch(this.#namespace, id, span('ttl', options.ttl))
    return (await this.#pipe.call(TOUCH, body, this.#pipe.timeout('touch', options.timeout))) as Conversation<F>
  }

  /** Ends a conversation: it is idle at once. False if it was so. */
  async reset(id: string, options: { timeout?: Duration } = {}): Promise<boolean> {
    checkKnown('reset', options, ['timeout'])
    return this.#pipe.call(RESET, encodeTouch(this.#namespace, id, undefined), this.#pipe.timeout('reset', options.timeout))
  }

  /** The conversations of the namespace, in no order, for a person who looks: it walks the whole keyspace, and what changes meanwhile may be missed or come twice. */
  async *list(): AsyncGenerator<ConversationSummary, void, undefined> {
    const read = (cursor: string) => this.#connection.unary(Service.listConversations, { namespace: this.#namespace, cursor, limit: 1000 }, this.#pipe.timeoutMs)
    for await (const page of pages(read)) {
      for (const { version, bytes, ...rest } of page.conversations) yield { ...rest, version: Number(version), bytes: Number(bytes) }
    }
  }
}
