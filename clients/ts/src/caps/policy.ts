// Policies, as an application writes and reads them.

import { fromDuration, toDuration } from '../duration.js'
import { badField } from '../errors.js'
import type { Duration as WireDuration } from '../gen/google/protobuf/duration.js'
import { CapPreset, CapScope, type CapPolicy as WirePolicy } from '../gen/pannier/v1/cap.js'
import { count, DAY_MS, LONGEST_MS, span, textBytes } from '../limits.js'
import { checkKnown, inMilliseconds, type Duration } from '../options.js'
import { COUNT_MAX } from './codec.js'

/** What a policy counts apart: everything together, each sender, each recipient, or each pair. */
export type Scope = 'namespace' | 'sender' | 'recipient' | 'pair'

/** At most `limit` in each window. */
export interface FixedRule {
  algorithm: 'fixed'
  /** 1..1 000 000 000. */
  limit: number
  /** 1 ms..400 days; begins at multiples of its length since the Unix epoch (UTC). Default: a civil day. */
  window?: Duration
  /** Of the civil day, an IANA name such as 'America/Mexico_City': from midnight to midnight, 23 or 25 h where the clock changes. Default UTC. Not with `window`. */
  timeZone?: string
}

/** At most `limit` in any span of `window`, exactly. */
export interface RollingRule {
  algorithm: 'rolling'
  /** 1..128; above, use gcra. */
  limit: number
  /** 1 ms..400 days. */
  window: Duration
}

/** One per `period`, `burst` at once. */
export interface GcraRule {
  algorithm: 'gcra'
  /** 1 µs..400 days, in whole microseconds: 0.5 is half a millisecond. */
  period: Duration
  /** 1..1 000 000 000; burst × period ≤ 400 days. */
  burst: number
}

/** At most `limit` different recipients in any span of `window`, each by the last send to it that a business began. */
export interface UniqueRule {
  algorithm: 'unique'
  /** 1..1 000 000 000. Infinity: nothing is denied, recipients are still counted. */
  limit: number
  /** 1 ms..400 days. Default 24 h. */
  window?: Duration
}

/**
 * Published limits of Meta's Cloud API, as of 2026-11-29; they stand for scope and algorithm.
 * - `metaThroughput`: 80 messages per second of one business phone number (rolling, by sender). Meta counts what comes in, too, and
 *   raises eligible numbers to 1 000 by itself. https://developers.facebook.com/docs/whatsapp/throughput
 * - `metaPair`: one message per 6 s to the same user, up to 45 at once on credit (gcra, by pair); error 131056.
 *   https://developers.facebook.com/docs/whatsapp/messaging-limits
 * - `metaTier…`: different users per rolling 24 h to whom a portfolio sends outside their service windows (unique, by namespace).
 *   New portfolios begin at 250. Same page.
 */
export type Preset = 'metaThroughput' | 'metaPair' | 'metaTier250' | 'metaTier2k' | 'metaTier10k' | 'metaTier100k' | 'metaTierUnlimited'

/** A rule by a preset. */
export interface PresetRule {
  preset: Preset
}

/** How much may be sent. */
export type Rule = FixedRule | RollingRule | GcraRule | UniqueRule

/** A policy to set. */
export type CapPolicy = {
  /** 1..128 bytes. */
  name: string
  /** While Valkey cannot be reached, send rather than wait. Default false. */
  failOpen?: boolean
} & (({ /** Default: namespace. */ scope?: Scope } & Rule) | PresetRule)

/** A policy as it is stored. Durations are milliseconds. */
export type StoredPolicy = {
  readonly name: string
  readonly scope: Scope
  readonly failOpen: boolean
  /** Rises with every change, never used twice. */
  readonly revision: number
  readonly updatedAt: Date | undefined
  /** It came from `--cap-policies`, and nobody has changed it since. */
  readonly fromConfig: boolean
} & Rule

const SCOPES = {
  namespace: CapScope.CAP_SCOPE_NAMESPACE, sender: CapScope.CAP_SCOPE_SENDER,
  recipient: CapScope.CAP_SCOPE_RECIPIENT, pair: CapScope.CAP_SCOPE_PAIR,
} as const
const PRESETS = {
  metaThroughput: CapPreset.CAP_PRESET_META_THROUGHPUT, metaPair: CapPreset.CAP_PRESET_META_PAIR,
  metaTier250: CapPreset.CAP_PRESET_META_TIER_250, metaTier2k: CapPreset.CAP_PRESET_META_TIER_2K,
  metaTier10k: CapPreset.CAP_PRESET_META_TIER_10K, metaTier100k: CapPreset.CAP_PRESET_META_TIER_100K,
  metaTierUnlimited: CapPreset.CAP_PRESET_META_TIER_UNLIMITED,
} as const
const KNOWN = {
  fixed: ['limit', 'window', 'timeZone'], rolling: ['limit', 'window'], gcra: ['period', 'burst'], unique: ['limit', 'window'],
} as const
const ROLLING_MAX = 128

/** A policy for the sidecar. @throws BadRequestError; TypeError for an unknown field */
export function toWire(policy: CapPolicy): WirePolicy {
  const { name, failOpen = false } = policy
  textBytes('policy.name', name, 128)
  const wire = { name, failOpen, revision: 0n, updatedAt: undefined, fromConfig: false }
  if ('preset' in policy) {
    checkKnown('setPolicy', policy, ['name', 'failOpen', 'preset'])
    const preset = own(PRESETS, policy.preset)
    if (preset === undefined) throw badField('policy.preset', `must be one of ${Object.keys(PRESETS).join(', ')}`)
    return { ...wire, scope: CapScope.CAP_SCOPE_UNSPECIFIED, algorithm: { $case: 'preset', value: preset } }
  }
  const known = own(KNOWN, policy.algorithm)
  if (known === undefined) throw badField('policy.algorithm', `must be one of ${Object.keys(KNOWN).join(', ')}`)
  checkKnown('setPolicy', policy, ['name', 'failOpen', 'scope', 'algorithm', ...known])
  const scope = own(SCOPES, policy.scope ?? 'namespace')
  if (scope === undefined) throw badField('policy.scope', `must be one of ${Object.keys(SCOPES).join(', ')}`)
  return { ...wire, scope, algorithm: toRule(policy) }
}

function toRule(rule: Rule): NonNullable<WirePolicy['algorithm']> {
  switch (rule.algorithm) {
    case 'fixed': {
      const limit = count('policy.fixed.limit', rule.limit, 1, COUNT_MAX)
      if (rule.window !== undefined && rule.timeZone !== undefined) throw badField('policy.fixed.time_zone', 'cannot be given with `window`')
      return { $case: 'fixed', value: { limit, window: wireSpan('policy.fixed.window', rule.window), timeZone: rule.timeZone ?? '' } }
    }
    case 'rolling': {
      const limit = count('policy.rolling.limit', rule.limit, 1, ROLLING_MAX)
      return { $case: 'rolling', value: { limit, window: wireSpan('policy.rolling.window', rule.window) } }
    }
    case 'gcra':
      return { $case: 'gcra', value: { period: period(rule.period), burst: count('policy.gcra.burst', rule.burst, 1, COUNT_MAX) } }
    case 'unique': {
      const unlimited = rule.limit === Infinity
      const limit = unlimited ? 0 : count('policy.unique.limit', rule.limit, 1, COUNT_MAX)
      return { $case: 'unique', value: { limit, unlimited, window: wireSpan('policy.unique.window', rule.window) } }
    }
  }
}

function wireSpan(field: string, value: Duration | undefined): WireDuration | undefined {
  return toDuration(span(field, value))
}

function period(value: Duration): WireDuration {
  const micros = inMilliseconds(value) * 1000
  const whole = Math.round(micros)
  // 0.3 ms is 300 µs, though not quite so in binary.
  if (!(Math.abs(micros - whole) < 1e-3 && whole >= 1 && whole <= LONGEST_MS * 1000)) throw badField('policy.gcra.period', 'must be whole microseconds: 1 µs..400 days')
  return { seconds: BigInt(Math.floor(whole / 1e6)), nanos: (whole % 1e6) * 1000 }
}

/** A policy from the sidecar. */
export function fromWire(wire: WirePolicy): StoredPolicy {
  const { name, failOpen, updatedAt, fromConfig } = wire
  const scope = (Object.keys(SCOPES) as Scope[]).find(one => SCOPES[one] === wire.scope) ?? 'namespace'
  return { name, scope, failOpen, updatedAt, fromConfig, revision: Number(wire.revision), ...fromRule(wire.algorithm) }
}

function fromRule(rule: WirePolicy['algorithm']): Rule {
  switch (rule?.$case) {
    case 'fixed': {
      const { limit, window, timeZone } = rule.value
      return window ? { algorithm: 'fixed', limit, window: fromDuration(window) ?? 0 } : { algorithm: 'fixed', limit, timeZone: timeZone || 'UTC' }
    }
    case 'rolling':
      return { algorithm: 'rolling', limit: rule.value.limit, window: fromDuration(rule.value.window) ?? 0 }
    case 'gcra':
      return { algorithm: 'gcra', period: fromDuration(rule.value.period) ?? 0, burst: rule.value.burst }
    case 'unique': {
      const { limit, unlimited, window } = rule.value
      return { algorithm: 'unique', limit: unlimited ? Infinity : limit, window: fromDuration(window) ?? DAY_MS }
    }
    case 'preset':
    case undefined:
      throw badField('policy.algorithm', 'is one that this client does not know: upgrade it')
  }
}

/** What is under a name, and not what every object has. */
function own<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}
