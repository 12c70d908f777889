// Records what the npm package `ai` sends; run by hand: see record.py.
//   npm install ai @ai-sdk/openai zod @opentelemetry/sdk-trace-node @opentelemetry/exporter-trace-otlp-proto
//   node tests/collector/store/dialects/record_vercel.mjs http://127.0.0.1:PORT      (PORT of standin.py)
import { createOpenAI } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { embed, generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const server = process.argv[2];
const exporter = new OTLPTraceExporter({ url: `${server}/v1/traces` });
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();

const openai = createOpenAI({ apiKey: "x", baseURL: `${server}/v1` });
const telemetry = {
  isEnabled: true,
  functionId: "weather",
  metadata: { sessionId: "session-1", userId: "user-1" },
};
await generateText({
  model: openai.chat("gpt-4o-mini"),
  system: "You are brief.",
  prompt: "What is the weather in Lima?",
  tools: {
    get_weather: tool({
      description: "The weather in a city",
      inputSchema: z.object({ city: z.string() }),
      execute: async () => "sunny",
    }),
  },
  stopWhen: stepCountIs(3),
  experimental_telemetry: telemetry,
});
await embed({
  model: openai.textEmbeddingModel("text-embedding-3-small"),
  value: "Lima",
  experimental_telemetry: telemetry,
});
await provider.forceFlush();
await provider.shutdown();
