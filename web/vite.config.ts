import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// The server that `npm run dev` passes the API's calls on to.
const api = process.env.FIREONCE_ADDR ?? "http://127.0.0.1:8080";

export default defineConfig({
  // The page names its own base, so that a proxy may add a path before it.
  base: "./",
  plugins: [react(), tailwindcss()],
  resolve: {
    alias: { "@": here("./src"), "@gen": here("../gen/ts/fireonce") },
    // gen/ts lies outside of this folder, and has no node_modules of its own.
    dedupe: ["@bufbuild/protobuf"],
  },
  build: {
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // light-dark()
    // The policy of the page allows no data: URLs, and needs no polyfill.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.txt" },
    chunkSizeWarningLimit: 1000,
  },
  server: {
    fs: { allow: [here("..")] },
    proxy: { "^/(fireonce\\.|session)": { target: api, changeOrigin: true } },
  },
});
