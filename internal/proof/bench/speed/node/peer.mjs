// What the peers in JavaScript share: the task, requests, processor time, and the
// line that says what was measured. See measure.go for what a task is.
import fs from 'node:fs'
import http from 'node:http'

export const task = JSON.parse(process.argv[2])
export const kind = task.measure.split('/')[1]

// The database's folder of sockets, for clients that take parts of an address.
const address = new URL(task.database.replace(/^postgres:/, 'http:').replace('@/', '@localhost/'))
export const database = {
  host: address.searchParams.get('host'), user: decodeURIComponent(address.username), database: address.pathname.slice(1),
}
export const poolSize = 32

const agent = new http.Agent({ keepAlive: true, maxSockets: task.senders, maxFreeSockets: task.senders })
const receiver = new URL(task.url)

function call(method, body) {
  return new Promise((resolve, reject) => {
    const headers = body ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {}
    const req = http.request({ agent, host: receiver.hostname, port: receiver.port, path: receiver.pathname, method, headers }, (res) => {
      let text = ''
      res.on('data', (d) => { text += d })
      res.on('end', () => (res.statusCode === 200 ? resolve(text) : reject(new Error('status ' + res.statusCode))))
    })
    req.on('error', reject)
    req.end(body)
  })
}

export const post = (payload) => call('POST', JSON.stringify(payload))

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

const micros = () => Math.round((performance.timeOrigin + performance.now()) * 1e3)
const padding = 'x'.repeat(510)
export const payload = (n, since = micros()) => ({ n, since, user: 'a8098c1a-f86e-11da-bd1a-00112444be1e', pad: padding })

// awaitArrivals waits until all jobs have taken effect.
export async function awaitArrivals() {
  while (+(await call('GET')) < task.jobs) await sleep(20)
}

// stat reads /proc/PID/stat: whose child it is, its time and its dead children's,
// in hundredths of a second.
function stat(pid) {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    const f = text.slice(text.lastIndexOf(')') + 1).trim().split(' ').map(Number)
    return { parent: f[1], own: f[11] + f[12], gone: f[13] + f[14] }
  } catch {
    return { parent: 0, own: 0, gone: 0 }
  }
}

// postgres is the processor time of the PostgreSQL server in microseconds.
function postgres() {
  let first
  try {
    first = +fs.readFileSync(`${task.data}/postmaster.pid`, 'utf8').split('\n')[0]
  } catch {
    return 0
  }
  const s = stat(first)
  let sum = s.own + s.gone
  for (const name of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const child = stat(name)
    if (child.parent === first) sum += child.own
  }
  return sum * 1e4
}

const own = () => { const u = process.cpuUsage(); return u.user + u.system }

// meter measures from its call until its answer is called.
export function meter() {
  const before = { own: own(), pg: postgres(), at: performance.now() }
  return (jobs) => {
    const seconds = (performance.now() - before.at) / 1000
    const s = { per_s: jobs / seconds, own_us: (own() - before.own) / jobs, pg_us: (postgres() - before.pg) / jobs, server_us: 0 }
    return { ...s, cpu_us: s.own_us + s.pg_us }
  }
}

// concurrently does pieces 0 to n-1, so many at once.
export async function concurrently(atOnce, n, piece) {
  let next = 0
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (next < n) await piece(next++)
  }))
}

// batches submits the task's jobs in calls of many.
export const batches = (submit) => concurrently(task.loaders, Math.ceil(task.jobs / task.batch), (i) => {
  const from = i * task.batch
  return submit(Array.from({ length: Math.min(task.batch, task.jobs - from) }, (_, k) => payload(from + k)))
})

// now submits the task's jobs to an idle system, one after the other.
export async function now(submit) {
  const calls = []
  for (let n = -20; n < task.jobs; n++) {
    const begin = performance.now()
    await submit(payload(n))
    if (n >= 0) calls.push(performance.now() - begin)
    await sleep(task.gap / 1e6)
  }
  await awaitArrivals()
  calls.sort((a, b) => a - b)
  return { call_p50_ms: calls[Math.ceil(calls.length / 2) - 1] }
}

// expect wants a number of jobs in the database.
export function expect(got, want) {
  if (+got !== want) throw new Error(`of ${want} jobs ${got} are there`)
}

export function give(sample) {
  console.log(JSON.stringify(sample))
  process.exit(0)
}
