// Records what the npm package `ai` sends for one conversation; run by record_talk.py.
import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { generateText } from "ai";

const server = process.argv[2];
const exporter = new OTLPTraceExporter({ url: `${server}/v1/traces` });
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();

const { system, messages } = JSON.parse(readFileSync("talk.json", "utf8"));
const openai = createOpenAI({ apiKey: "x", baseURL: `${server}/v1` });
await generateText({
  model: openai.chat("gpt-4o-mini"),
  system,
  messages,
  temperature: 0.2,
  experimental_telemetry: { isEnabled: true },
});
await provider.forceFlush();
await provider.shutdown();
