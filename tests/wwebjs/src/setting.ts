// What every test file has: a sidecar, a connection, and a folder of each test's own.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type Pannier } from 'pannier'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { Sidecar } from '../../../clients/ts/tests/support/sidecar.js'

export interface Setting {
  sidecar: Sidecar
  pannier: Pannier
  /** Of the test that runs: empty at its start, gone after it. */
  work: string
  /** In it: the `dataPath`. */
  dataPath: string
  /** In it: the working directory of the test. */
  cwd: string
}

/** Registers the hooks; what it returns is filled in by them. */
export function useSetting(args: string[] = ['--bulk-rate', '1GiB']): Setting {
  const setting = {} as Setting
  const home = process.cwd()
  beforeAll(async () => {
    setting.sidecar = await Sidecar.start({ args })
    setting.pannier = await connect({ address: setting.sidecar.address })
  })
  afterAll(async () => {
    await setting.pannier?.close()
    await setting.sidecar?.stop()
  })
  beforeEach(() => {
    setting.work = mkdtempSync(join(tmpdir(), 'pannier-wwebjs-'))
    setting.dataPath = join(setting.work, 'auth')
    setting.cwd = join(setting.work, 'cwd')
    mkdirSync(setting.cwd)
    // Some versions write to the working directory.
    process.chdir(setting.cwd)
  })
  afterEach(() => {
    process.chdir(home)
    rmSync(setting.work, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  })
  return setting
}

let names = 0

/** A clientId that no other test has. */
export function newId(): string {
  return `bot-${process.pid}-${++names}`
}
