// Three reminders of an invoice, as jobs with names of their own: adding them again adds nothing, and a payment finds them.
import { FailJob, type Job, type JobContext, type JobOptions, type Pannier } from 'pannier'

export type Invoice = { id: string; waId: string; amount: string; dueAt: string }
type Reminder = { invoice: Invoice; kind: Kind }
type Kind = 'soon' | 'today' | 'overdue'

export const QUEUE = 'reminders'
const DAY = 24 * 60 * 60 * 1000
const KINDS: { kind: Kind; days: number }[] = [{ kind: 'soon', days: -3 }, { kind: 'today', days: 0 }, { kind: 'overdue', days: 3 }]

const idOf = (invoiceId: string, kind: Kind): string => `reminder:${invoiceId}:${kind}`
const dayOf = (dueAt: string, days: number): Date => new Date(new Date(dueAt).getTime() + days * DAY)

/** Plans the reminders of open invoices: for a new one, and for all of them at each start. Which are planned, sent or called off stays so. */
export async function plan(pannier: Pannier, invoices: Invoice[]): Promise<void> {
  const jobs = invoices.flatMap(invoice => KINDS.map(({ kind, days }): JobOptions<Reminder> => ({
    id: idOf(invoice.id, kind),
    dueAt: dayOf(invoice.dueAt, days),
    payload: { invoice, kind },
    retry: { maxAttempts: 8, base: '1m' },
    uniqueWindow: '60d', // once sent or called off, its id is taken for so long: longer than an invoice is looked at
    holdWhenCancelled: true,
  })))
  for (let n = 0; n < jobs.length; n += 1000) await pannier.schedule.enqueueBatch(QUEUE, jobs.slice(n, n + 1000))
}

/** The invoice is paid. One that is being sent right now is told to stop. */
export async function callOff(pannier: Pannier, invoiceId: string): Promise<string[]> {
  const calledOff = await Promise.all(KINDS.map(({ kind }) => pannier.schedule.cancel(QUEUE, idOf(invoiceId, kind))))
  return calledOff.map(({ outcome }) => outcome)
}

/** Another due date. What was sent already is not sent again. */
export async function postpone(pannier: Pannier, invoiceId: string, dueAt: string): Promise<string[]> {
  const moved = await Promise.all(KINDS.map(({ kind, days }) => pannier.schedule.reschedule(QUEUE, idOf(invoiceId, kind), dayOf(dueAt, days))))
  return moved.map(({ outcome }) => outcome)
}

/** What the worker does. `send` gives the status of the answer. */
export function remind(send: (waId: string, text: string) => Promise<Response>) {
  return async ({ payload: { invoice, kind }, createdAt, dueAt }: Job<Reminder>, { signal }: JobContext): Promise<string> => {
    // An invoice of last month, planned today; or everything was down for a day: nobody wants to hear of it now.
    if (Date.now() - dueAt.getTime() > DAY) return `not sent: it was due ${dueAt.toISOString()}, planned ${createdAt.toISOString()}`
    signal.throwIfAborted() // paid a moment ago
    const text = {
      soon: `Invoice ${invoice.id} over ${invoice.amount} is due in three days.`,
      today: `Invoice ${invoice.id} over ${invoice.amount} is due today.`,
      overdue: `Invoice ${invoice.id} over ${invoice.amount} is overdue. Is something wrong with it?`,
    }[kind]
    const response = await send(invoice.waId, text)
    if (response.ok) return 'sent'
    const why = `Graph API: ${response.status} ${await response.text()}`
    throw response.status === 400 ? new FailJob(why) : new Error(why) // given up; tried again
  }
}
