// Files and folders in the making: `<name>.part-<pid>-<random>`. Whoever makes the next one of the same name removes what a killed
// process has left behind.

import { randomBytes } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/** Of another process that seems to live: pids come again. */
const OLD_MS = 24 * 60 * 60 * 1000
const mine = new Set<string>()

/** Gives `work` a name beside `path` that nobody else has. Whatever has that name when it ends is removed. */
export async function withPart<T>(path: string, work: (part: string) => Promise<T>): Promise<T> {
  const part = `${path}.part-${process.pid}-${randomBytes(6).toString('hex')}`
  mine.add(part)
  try {
    return await work(part)
  } finally {
    await rm(part, { recursive: true, force: true, maxRetries: 5 }).finally(() => mine.delete(part))
  }
}

/** Removes what killed processes left beside `path`. Best effort. */
export async function sweep(path: string): Promise<void> {
  const directory = dirname(path)
  const prefix = `${basename(path)}.part-`
  const names = await readdir(directory).catch(() => [])
  for (const name of names) {
    const pid = name.startsWith(prefix) ? /^(\d+)-[0-9a-f]{12}(\.part-.*)?$/.exec(name.slice(prefix.length))?.[1] : undefined
    if (pid === undefined) continue
    const part = join(directory, name)
    if (mine.has(part) || (Number(pid) !== process.pid && lives(Number(pid)) && !(await isOld(part)))) continue
    await rm(part, { recursive: true, force: true }).catch(() => {})
  }
}

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

async function isOld(path: string): Promise<boolean> {
  const info = await stat(path).catch(() => undefined)
  return info !== undefined && Date.now() - info.mtimeMs > OLD_MS
}
