// Pannier: its TypeScript client and its sidecar on the same Valkey, once both are built.
import { Sidecar, sidecarBinary } from '../../src/sidecar.js'
import { loadClient } from '../../src/pannier-client.js'
import type { Setup } from './store.js'

export const pannier: Setup = async valkey => {
  const client = await loadClient()
  if (!client || !sidecarBinary()) return undefined
  const sidecar = await Sidecar.start(valkey)
  const connection = await client.connect({ address: sidecar.address, readyTimeout: '30s' })
  return {
    name: 'pannier',
    encrypted: true,
    keptIn: 'valkey',
    processes: () => [{ name: 'sidecar', pid: sidecar.pid }],
    open: session => client.usePannierAuthState(connection, session, {}),
    async stop() {
      await connection.close()
      await sidecar.kill()
    },
  }
}
