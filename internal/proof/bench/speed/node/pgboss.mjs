// pg-boss on the task's database.
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { awaitArrivals, batches, concurrently, database, expect, give, kind, meter, now, payload, poolSize, post, sleep, task } from './peer.mjs'

const queue = 'post'
const pool = new pg.Pool({ ...database, max: 2 })
const admin = new pg.Pool({ connectionString: task.admin, max: 1 })
const boss = new PgBoss({ ...database, max: poolSize, schedule: false, useListenNotify: true })
boss.on('error', (e) => console.error(e))
boss.on('warning', () => {})
await boss.start()
// Notifications are there where the time to a start is measured. They would slow
// down what is submitted elsewhere.
await boss.createQueue(queue, { notify: kind === 'now' })

const insert = (payloads) => boss.insert(queue, payloads.map((data) => ({ data })))
const count = async (where) => (await pool.query(`SELECT count(*) FROM pgboss.job WHERE name = $1 AND ${where}`, [queue])).rows[0].count

async function settle() {
  await admin.query('VACUUM ANALYZE')
  await admin.query('CHECKPOINT')
}

// work fetches in large batches, which is its fastest way; how many requests are
// under way at once is bounded by the agent that sends them. Two fetchers take
// turns, so that one fetches while the other's requests are under way.
const work = () => boss.work(queue, {
  batchSize: 500, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5,
}, async (jobs) => { await Promise.all(jobs.map((j) => post(j.data))) })

if (kind === 'submit') {
  await settle()
  const stop = meter()
  await concurrently(task.callers, task.jobs, (n) => boss.send(queue, payload(n)))
  const sample = stop(task.jobs)
  expect(await count('true'), task.jobs)
  give(sample)
} else if (kind === 'batch') {
  await settle()
  const stop = meter()
  await batches(insert)
  const sample = stop(task.jobs)
  expect(await count('true'), task.jobs)
  give(sample)
} else if (kind === 'work') {
  await batches(insert)
  await settle()
  const stop = meter()
  await work()
  await awaitArrivals()
  while (+(await count("state = 'completed'")) < task.jobs) await sleep(5)
  give(stop(task.jobs))
} else {
  await work()
  await sleep(1000)
  give(await now((p) => boss.send(queue, p)))
}
