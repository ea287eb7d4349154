// A client in a process of its own, without a browser: it starts, says how that went, and ends when its input does.
import { connect } from 'pannier'
import { HardenedRemoteAuth, PannierStore } from 'pannier/wwebjs'

const [address, clientId, dataPath, lease] = process.argv.slice(2)
const pannier = await connect({ address })
const auth = new HardenedRemoteAuth({ store: new PannierStore(pannier), clientId, dataPath, lease, onError: () => {} })
auth.setup({ options: {}, emit: () => true })
await auth.beforeBrowserInitialized().then(() => console.log('started'), error => console.log(error.name))
for await (const _ of process.stdin);
await auth.destroy()
await pannier.close()
