// Medians of the rounds, as a table for people and as JSON for other programs.
import type { Fsync } from '../src/valkey.js'
import type { TraceName } from './trace.js'

/** One store, one round. */
export interface Sample {
  wallMs: number
  nodeCpuMs: number
  valkeyCpuMs: number
  sidecarCpuMs: number
  roundTrips: number
  commands: Record<string, number>
  /** Bytes in Valkey after the run; undefined for files. */
  keyBytes: number | undefined
  sidecarResidentBytes: number | undefined
}

export interface Result {
  trace: TraceName
  fsync: Fsync
  operations: number
  stores: { key: string; name: string; encrypted: boolean; samples: Sample[] }[]
}

export const median = (values: number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] ?? NaN : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2
}

const of = (samples: Sample[], what: keyof Sample): number => median(samples.map(sample => Number(sample[what] ?? NaN)))
const seconds = (ms: number): string => (ms / 1_000).toFixed(2)
const megabytes = (bytes: number): string => (Number.isNaN(bytes) ? '' : (bytes / 1_048_576).toFixed(1))

export function table({ trace, fsync, operations, stores }: Result): string {
  const baseline = stores.find(({ key }) => key === 'ioredis')
  const others = stores.filter(({ key }) => key !== 'pannier')
  const best = Math.min(...others.map(({ samples }) => of(samples, 'wallMs')))
  const rows = stores.map(({ name, encrypted, samples }) => {
    const walls = samples.map(({ wallMs }) => wallMs)
    const bytes = of(samples, 'keyBytes')
    return [
      name + (encrypted ? ' (encrypted)' : ''),
      String(samples.length),
      seconds(median(walls)),
      `${seconds(Math.min(...walls))}–${seconds(Math.max(...walls))}`,
      (median(walls) / best).toFixed(2),
      Math.round((median(walls) * 1_000) / operations).toString(),
      seconds(of(samples, 'nodeCpuMs')),
      seconds(of(samples, 'valkeyCpuMs')),
      seconds(of(samples, 'sidecarCpuMs')),
      String(of(samples, 'roundTrips')),
      megabytes(bytes),
      baseline && !Number.isNaN(bytes) ? (bytes / of(baseline.samples, 'keyBytes')).toFixed(2) : '',
      megabytes(of(samples, 'sidecarResidentBytes')),
    ]
  })
  const head = ['store', 'rounds', 'wall s', 'spread', '× best', 'µs/op', 'CPU node', 'valkey', 'sidecar', 'round trips', 'MiB', '× plain', 'RSS MiB']
  const title = `${trace} · ${operations} operations · appendfsync ${fsync} · medians`
  return `${title}\n${align([head, ...rows])}`
}

function align(rows: string[][]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map(row => (row[column] ?? '').length))) ?? []
  return rows.map(row => row.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join('  ')).join('\n')
}
