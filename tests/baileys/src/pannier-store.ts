// Pannier as a bot's store: its TypeScript client as users get it, compiled, from `clients/ts` of this repository.
import { connect, type Pannier } from 'pannier'
import { type AuthStateOptions, type PannierAuthState, usePannierAuthState } from 'pannier/baileys'
import { baileys, type Version } from './baileys-versions.js'
import { logger } from './logger.js'
import type { Sidecar } from './sidecar.js'

export const connectTo = (sidecar: Sidecar): Promise<Pannier> => connect({ address: sidecar.address })

/** Opens states of the given Baileys; what the client warns about goes where Baileys' log goes. */
export const pannierStates = (pannier: Pannier, version: Version, options: AuthStateOptions = {}) =>
  (session: string): Promise<PannierAuthState> =>
    usePannierAuthState(pannier, session, { baileys: baileys(version), logger, ...options })
