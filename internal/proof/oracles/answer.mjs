// What platforms' own code says of texts. It reads one JSON object a line, {"of", "text"}, and
// writes one a line:
//
//     x          {"weight", "valid", "links": [[from, to], …]}, in units of UTF-16 of the text in NFC
//     bluesky    {"graphemes", "facets": [[type, value, byteStart, byteEnd], …]}
//     mastodon   {"links", "counted", "graphemes"}: the text as Mastodon's own client counts it, a link as 23 letters
//                (url_regex: twitter-text's parts, with a scheme), a mention without its server (counter)
//     url        {"host", "path", "query"}: the text as the URL Standard's parser takes it; all empty: it is no URL
//     graphemes  {"graphemes"}, by this program's own segmenter
//
// It ends when its input does.

import { createInterface } from 'node:readline'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const twitter = require('twitter-text')
const { RichText } = await import('@atproto/api')


const part = (name) => {
  const re = require(`twitter-text/dist/regexp/${name}.js`)
  return re.source ?? re
}
const address = new RegExp(`(${part('validUrlPrecedingChars')})https?:\\/\\/${part('validDomain')}(?::${part('validPortNumber')})?` +
  `(?:\\/${part('validUrlPath')}*)?(?:\\?${part('validUrlQueryChars')}*${part('validUrlQueryEndingChars')})?`, 'gi')

const value = (feature) => feature.uri ?? feature.tag ?? feature.did

const answers = {
  x({ text }) {
    const { weightedLength, valid } = twitter.parseTweet(text)
    const links = twitter.extractUrlsWithIndices(text.normalize(), { extractUrlsWithoutProtocol: true }).map((l) => l.indices)
    return { weight: weightedLength, valid, links }
  },
  bluesky({ text }) {
    const rich = new RichText({ text })
    rich.detectFacetsWithoutResolution()
    const facets = (rich.facets ?? []).map((f) => {
      const feature = f.features[0]
      return [feature.$type ?? '', value(feature), f.index.byteStart, f.index.byteEnd]
    })
    return { graphemes: rich.graphemeLength, facets }
  },
  mastodon({ text }) {
    const links = text.replace(address, '$1' + 'x'.repeat(23))
    const counted = links.replace(/(^|[^/\w])@(([a-z0-9_]+)@[a-z0-9.-]+[a-z0-9]+)/gi, '$1@$3')
    return { links, counted, graphemes: [...new Intl.Segmenter().segment(counted)].length }
  },
  url({ text }) {
    try {
      const u = new URL(text)
      return { host: u.host, path: u.pathname, query: u.search }
    } catch { // not URL.canParse, which refuses "http://é/" in Node 20
      return { host: '', path: '', query: '' }
    }
  },
  graphemes({ text }) {
    return { graphemes: [...new Intl.Segmenter().segment(text)].length }
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line)
  let answer
  try {
    answer = answers[question.of](question)
  } catch (error) {
    answer = { error: String(error) }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
