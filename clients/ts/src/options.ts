// Checks of options: an unknown one throws with a suggestion, a duration is a number of milliseconds or a text such as '20s'.

/** Milliseconds, or a text: `'250ms'`, `'20s'`, `'5m'`, `'1h'`, `'8d'` (days of 24 h). */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

const UNIT = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
/** setTimeout's own limit. */
const LONGEST = 2 ** 31 - 1

/** Throws a TypeError if `options` has a key not in `known`. */
export function checkKnown(where: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue
    const near = nearest(key, known)
    const suggestion = near === undefined ? `it knows ${known.join(', ')}` : `did you mean \`${near}\`?`
    throw new TypeError(`${where}: unknown option \`${key}\`; ${suggestion}`)
  }
}

/** Milliseconds of a duration option; `fallback` when it is not given. */
export function milliseconds(where: string, value: Duration | undefined, fallback: number): number {
  if (value === undefined) return fallback
  const ms = inMilliseconds(value)
  if (!Number.isFinite(ms) || ms < 0 || ms > LONGEST) {
    throw new TypeError(`${where} must be milliseconds (0..${LONGEST}) or a text such as '20s'`)
  }
  return Math.ceil(ms)
}

/** A duration as a number of milliseconds, whole or not; NaN for what is none. */
export function inMilliseconds(value: Duration): number {
  if (typeof value === 'number') return value
  const parts = typeof value === 'string' ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(value) : null
  if (!parts) return Number.NaN
  // '1.1s' is 1100, not 1100.0000000000002.
  return Math.round(Number(parts[1]) * UNIT[parts[2] as keyof typeof UNIT] * 1e6) / 1e6
}

/** The known name that `key` was probably meant to be. */
function nearest(key: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let least = Math.max(2, Math.floor(key.length / 3)) + 1
  for (const name of known) {
    const distance = editDistance(key.toLowerCase(), name.toLowerCase())
    if (distance < least) [best, least] = [name, distance]
  }
  return best
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
