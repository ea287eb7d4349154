// Client, sidecar and Valkey killed at random points of saves: what is fetched is always a whole archive, the last acknowledged one
// or a newer one.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { connect } from 'pannier'
import { restoreDir } from 'pannier/wwebjs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Sidecar } from '../../../clients/ts/tests/support/sidecar.js'
import { seeded } from '../src/random.js'
import { versionOf } from '../src/saved-versions.mjs'

const SAVES = process.env['PANNIER_SOAK'] ? 100 : 24
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)

let sidecar: Sidecar
let work: string

beforeAll(async () => {
  sidecar = await Sidecar.start()
  work = mkdtempSync(join(tmpdir(), 'pannier-wwebjs-'))
})
afterAll(async () => {
  await sidecar?.stop()
  rmSync(work, { recursive: true, force: true, maxRetries: 5 })
})

/** The process that saves, and what it has said. */
class Saver {
  begun = 0
  acknowledged = 0
  readonly failures: string[] = []
  #child: ChildProcess | undefined
  #heard = () => {}

  run(): void {
    const script = fileURLToPath(new URL('../src/saver.mjs', import.meta.url))
    this.#child = spawn(process.execPath, [script, sidecar.address, join(work, 'auth'), String(this.begun + 1)], { stdio: ['ignore', 'pipe', 'inherit'] })
    createInterface({ input: this.#child.stdout ?? process.stdin }).on('line', line => {
      const [what, version] = line.split(' ')
      if (what === 'begin') this.begun = Number(version)
      if (what === 'saved') this.acknowledged = Number(version)
      if (what === 'failed') this.failures.push(line)
      this.#heard()
    })
  }

  /** When a save later than those so far has begun. */
  async nextSave(): Promise<void> {
    const { begun } = this
    const deadline = setTimeout(() => this.#heard(), 30_000)
    while (this.begun === begun) {
      await new Promise<void>(resolve => (this.#heard = resolve))
      if (this.begun === begun && this.#child?.exitCode !== null) throw new Error('the saving process has ended')
    }
    clearTimeout(deadline)
  }

  async kill9(): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'close')
    child.kill('SIGKILL')
    await gone
  }
}

test(`${SAVES} saves, each with a kill -9 in it`, async () => {
  console.log(`SEED=${seed}`)
  const random = seeded(seed)
  const pannier = await connect({ address: sidecar.address })
  const saver = new Saver()
  const killed = { client: 0, sidecar: 0, valkey: 0 }
  let unacknowledged = 0
  try {
    saver.run()
    for (let i = 0; i < SAVES; i++) {
      await saver.nextSave()
      // A save takes a third of a second here.
      await new Promise(resolve => setTimeout(resolve, random() * 350))
      const victim = (['client', 'sidecar', 'valkey'] as const)[Math.floor(random() * 3)] ?? 'client'
      killed[victim]++
      if (victim === 'client') {
        await saver.kill9()
        saver.run()
      } else if (victim === 'sidecar') await sidecar.restart()
      else {
        await sidecar.valkey.kill9()
        await sidecar.valkey.run()
      }
      const { acknowledged } = saver
      if (acknowledged === 0) continue
      const folder = join(work, 'restored')
      await restoreDir(pannier, 'RemoteAuth-killed', folder)
      const version = versionOf(readFileSync(join(folder, 'Default/IndexedDB/version')))
      expect(version, `after a kill of the ${victim}`).toBeDefined()
      expect(version).toBeGreaterThanOrEqual(acknowledged)
      expect(version).toBeLessThanOrEqual(saver.begun)
      if ((version ?? 0) > acknowledged) unacknowledged++
    }
    console.log(`killed ${JSON.stringify(killed)}; ${saver.acknowledged} of ${saver.begun} saves acknowledged, ${saver.failures.length} failed; ${unacknowledged} times a newer one was there`)
    expect(saver.failures).toEqual([])
    expect(saver.acknowledged).toBeGreaterThan(SAVES / 4)
  } finally {
    await saver.kill9()
    await pannier.close()
  }
}, SAVES * 15_000)
