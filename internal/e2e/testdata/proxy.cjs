// A proxy that compresses whatever may be: proxy.cjs SOCKET TARGET
'use strict'
const http = require('http')
const compress = require('compression')({ threshold: 0, filter: () => true })
const [socket, target] = process.argv.slice(2)
const proxy = require('http-proxy').createProxyServer({ target })
proxy.on('error', (_, __, response) => response.destroy())
http.createServer((request, response) => {
  compress(request, response, () => proxy.web(request, response))
}).listen(socket)
