// Pannier: its TypeScript client and its sidecar, on the same Valkey.
import { connectTo, pannierStates } from '../../src/pannier-store.js'
import { Sidecar, sidecarBinary } from '../../src/sidecar.js'
import type { Setup } from './store.js'

export const pannier: Setup = async valkey => {
  if (!sidecarBinary()) return undefined
  const sidecar = await Sidecar.start({ valkey })
  const connection = await connectTo(sidecar)
  return {
    name: 'pannier',
    encrypted: true,
    keptIn: 'valkey',
    processes: () => [{ name: 'sidecar', pid: sidecar.pid }],
    open: pannierStates(connection, '7.0.0-rc14'),
    async stop() {
      await connection.close()
      await sidecar.stop()
    },
  }
}
