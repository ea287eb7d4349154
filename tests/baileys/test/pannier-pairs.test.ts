// Bots that keep their Signal state in Pannier, while the sidecar and Valkey are killed under them: every message decrypts,
// and every read is one that was written.
import { afterEach, expect, test } from 'vitest'
import type { Pannier } from 'pannier'
import { VERSIONS } from '../src/baileys-versions.js'
import { Faults } from '../src/faults.js'
import { connectTo, pannierStates } from '../src/pannier-store.js'
import { Random } from '../src/random.js'
import { Sidecar } from '../src/sidecar.js'
import { badMacs } from '../src/signal-console.js'
import { exchangeMessages } from '../src/signal-pairs.js'
import { Valkey } from '../src/valkey.js'

const STEPS = 800

let valkey: Valkey | undefined
let sidecar: Sidecar
let pannier: Pannier

afterEach(async () => {
  await pannier.close()
  await sidecar.stop()
  await valkey?.stop()
})

test.each(VERSIONS.flatMap(version => (['embedded', 'external'] as const).map(where => [version, where] as const)))(
  '%s, %s Valkey: bots and 100 contacts exchange messages while sidecar and Valkey are killed: every one decrypts',
  { timeout: 180_000 },
  async (version, where) => {
    const seed = Random.seed()
    console.log(`seed ${seed}`)
    valkey = where === 'external' ? await Valkey.start({ fsync: 'always' }) : undefined
    sidecar = await Sidecar.start(valkey ? { valkey } : {})
    pannier = await connectTo(sidecar)
    const faults = new Faults(sidecar, valkey, new Random(seed), STEPS, 4)
    const failed = badMacs()
    const report = await exchangeMessages({
      version,
      seed,
      steps: STEPS,
      keepsAdded: true,
      openAuthState: pannierStates(pannier, version),
      between: step => faults.between(step),
    })
    console.log(report, faults.counts)
    expect(report.oneToOne).toBeGreaterThan(250)
    expect(report.toGroups).toBeGreaterThan(40)
    expect(report.decrypted).toBeGreaterThan(report.oneToOne + report.toGroups)
    expect(Object.values(faults.counts).reduce((sum, count) => sum + count)).toBeGreaterThan(9)
    expect(badMacs()).toBe(failed)
  },
)
