// Recorded and generated store workloads of a bot: see tests/traces/README.md for the format.
import type { SignalDataTypeMap } from 'baileys'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'

export type KeyType = keyof SignalDataTypeMap

export type Op =
  | { op: 'get'; t: KeyType; ids: string[]; hit?: number }
  | { op: 'set'; d: Partial<Record<KeyType, Record<string, number | null>>> }
  | { op: 'creds'; size: number }

export const TRACES = ['recorded-100-contacts', 'day-small', 'day-medium'] as const
export type TraceName = (typeof TRACES)[number]

/** `tests/traces`, from the sources as well as from the compiled copy below `dist`. */
const folders = ['../../traces/', '../../../traces/'].map(path => new URL(path, import.meta.url))

export async function loadTrace(name: TraceName): Promise<Op[]> {
  for (const folder of folders) {
    const packed = await readFile(fileURLToPath(new URL(`${name}.jsonl.gz`, folder))).catch(() => undefined)
    if (packed) return gunzipSync(packed).toString().split('\n').filter(Boolean).map(line => JSON.parse(line) as Op)
  }
  throw new Error(`no trace ${name} in tests/traces`)
}
