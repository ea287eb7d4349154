// A process to be killed while it extracts.
import { connect } from 'pannier'
import { PannierStore } from 'pannier/wwebjs'

const [address, session, path] = process.argv.slice(2)
const store = new PannierStore(await connect({ address }))
console.log('extracting')
await store.extract({ session, path })
console.log('done')
