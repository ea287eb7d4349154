// What goes wrong on purpose while bots work: the sidecar killed, its Valkey killed, its scripts forgotten.
import type { Random } from './random.js'
import type { Sidecar } from './sidecar.js'
import type { Valkey } from './valkey.js'

export type Fault = 'sidecar' | 'valkey' | 'scripts'

export class Faults {
  readonly counts: Record<Fault, number> = { sidecar: 0, valkey: 0, scripts: 0 }
  readonly #steps = new Map<number, Fault>()

  /** Spreads so many of each over random steps. */
  constructor(private readonly sidecar: Sidecar, private readonly valkey: Valkey | undefined, random: Random, steps: number, each: number) {
    for (const fault of ['sidecar', 'valkey', 'scripts'] as const) {
      for (let n = 0; n < each; n++) this.#steps.set(random.below(steps), fault)
    }
  }

  /** Strikes if it is time; what runs meanwhile goes on. */
  async between(step: number): Promise<void> {
    const fault = this.#steps.get(step)
    if (fault) await this.strike(fault)
  }

  async strike(fault: Fault): Promise<void> {
    this.counts[fault]++
    if (fault === 'sidecar') {
      await this.sidecar.kill()
      this.sidecar.run()
    } else if (fault === 'valkey') {
      await this.sidecar.killValkey()
      // Its own is started again by the sidecar.
      await this.valkey?.run()
    } else {
      const client = await this.sidecar.valkeyClient()
      client.on('error', () => undefined)
      await client.script('FLUSH').catch(() => undefined)
      client.disconnect()
    }
  }
}
