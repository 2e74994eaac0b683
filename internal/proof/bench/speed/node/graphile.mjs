// graphile-worker on the task's database.
import pg from 'pg'
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import { awaitArrivals, batches, concurrently, database, expect, give, kind, meter, now, payload, poolSize, post, sleep, task } from './peer.mjs'

const logger = new Logger(() => (level, message) => { if (level === 'error') console.error(message) })
const pool = new pg.Pool({ ...database, max: poolSize })
pool.on('error', () => {})
const admin = new pg.Pool({ connectionString: task.admin, max: 1 })
const utils = await makeWorkerUtils({ pgPool: pool, logger })
await utils.migrate()

const one = (p) => utils.addJob('post', p)
const many = (payloads) => utils.addJobs(payloads.map((p) => ({ identifier: 'post', payload: p })))
const left = async () => (await pool.query('SELECT count(*) FROM graphile_worker._private_jobs')).rows[0].count

async function settle() {
  await admin.query('VACUUM ANALYZE')
  await admin.query('CHECKPOINT')
}

// The local queue fetches jobs in batches, which is its fastest way; without one
// each job is fetched when its notification comes, which is the soonest.
const worker = kind === 'now'
  ? { concurrentJobs: 10 }
  : { concurrentJobs: task.senders, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
const work = () => run({
  pgPool: pool, logger, noHandleSignals: true, preset: { worker: { ...worker, pollInterval: 1000 } }, taskList: { post },
})

if (kind === 'submit') {
  await settle()
  const stop = meter()
  await concurrently(task.callers, task.jobs, (n) => one(payload(n)))
  const sample = stop(task.jobs)
  expect(await left(), task.jobs)
  give(sample)
} else if (kind === 'batch') {
  await settle()
  const stop = meter()
  await batches(many)
  const sample = stop(task.jobs)
  expect(await left(), task.jobs)
  give(sample)
} else if (kind === 'work') {
  await batches(many)
  await settle()
  const stop = meter()
  await work()
  await awaitArrivals()
  while (+(await left()) > 0) await sleep(5)
  give(stop(task.jobs))
} else {
  await work()
  await sleep(1000)
  give(await now(one))
}
