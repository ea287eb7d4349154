// What caps answer.

/** Who sends to whom, as far as the policies count them apart: 1..512 bytes of UTF-8 each, any characters. */
export interface Subject {
  /** Needed by scopes `recipient` and `pair`, and by `unique` policies. */
  recipient?: string
  /** Needed by scopes `sender` and `pair`. */
  sender?: string
}

/** How a policy stands, right after what was asked. */
export interface CapUsage {
  readonly policy: string
  /** gcra: the burst. Infinity: unlimited. */
  readonly limit: number
  /** gcra: what of the burst is used up, rounded up. */
  readonly used: number
  /** What could be sent now; of `unique`: to how many new recipients. */
  readonly remaining: number
  /** fixed: the window's end. rolling, unique: when the oldest counted send leaves. gcra: when the burst is whole again. Undefined: nothing is used. */
  readonly resetAt: Date | undefined
}

/** Whether to send. `allowed` tells it without a look at `outcome`. */
export type ConsumeResult =
  | {
      readonly allowed: true
      /**
       * `allowed`: send; it is counted. `replayed`: this send was allowed before, by another call or by a try of this one whose answer
       * was lost, and is counted once; `usage` is that first answer. It does not say that it was sent: that you know best.
       */
      readonly outcome: 'allowed' | 'replayed'
      /** One for each policy, in the order they were named; none when it failed open. */
      readonly usage: readonly CapUsage[]
      /** `reserved`: counted until `reservedUntil`, unless confirmed before. */
      readonly state: 'reserved' | 'committed'
      readonly reservedUntil: Date | undefined
      /** Valkey could not be reached and the policies are `failOpen`: send; whether it was counted is not known. */
      readonly failedOpen: boolean
    }
  /** Not now: `deniedBy` has no room for `retryAfterMs` (exact, rounded up, ≥ 1). Nothing was counted. */
  | { readonly allowed: false; readonly outcome: 'denied'; readonly deniedBy: string; readonly retryAfterMs: number }
  /** Not ever: `n` is more than `deniedBy` allows at all. */
  | { readonly allowed: false; readonly outcome: 'never'; readonly deniedBy: string }
  /** The sendId was used with another n, recipient, sender, mode or other policies. Nothing was counted. */
  | { readonly allowed: false; readonly outcome: 'mismatch' }

/** `confirmed`: counted for good, also when it was already. `lapsed`: the reservation had run out or was refunded. `unknown`: no such send is remembered. */
export interface ConfirmResult {
  readonly outcome: 'confirmed' | 'lapsed' | 'unknown'
}

/** `refunded`: given back, also when it had been before (only the first counts). `lapsed`: the reservation had run out. `unknown`: no such send is remembered. */
export interface RefundResult {
  readonly outcome: 'refunded' | 'lapsed' | 'unknown'
}

/** What `consume` would find of one policy. */
export interface PolicyPeek extends CapUsage {
  /** `n` is more than it allows at all. */
  readonly never: boolean
  /** How long `n` would have to wait; 0: not at all. */
  readonly retryAfterMs: number
  /** How long the `unit`-th send would have to wait, if asked for. Undefined: longer than 400 days. */
  readonly unitAfterMs: number | undefined
}

/** What `consume` would find. */
export interface PeekResult {
  /** One for each policy, in the order they were named. */
  readonly policies: readonly PolicyPeek[]
  /** Until when the recipient's service window is open; undefined: it is closed. */
  readonly serviceWindowUntil: Date | undefined
}
