// What a process has used so far, from /proc; undefined where there is none.
import { readFile } from 'node:fs/promises'

/** Clock ticks a second in /proc: 100 on every Linux that Node runs on. */
const TICKS = 100

/** User and system time in milliseconds. */
export async function cpuMs(pid: number): Promise<number | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  // The second field is the command in brackets and may hold spaces; user time is the 14th, system time the 15th.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields && ((Number(fields[11]) + Number(fields[12])) * 1_000) / TICKS
}

/** Resident memory in bytes. */
export async function residentBytes(pid: number): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => undefined)
  const kilobytes = status && /^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]
  return kilobytes ? Number(kilobytes) * 1_024 : undefined
}
