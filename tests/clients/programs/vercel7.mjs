// Plays the scene with the npm package `ai` 7 and `OpenTelemetry`; run by `play.py`.
import { createOpenAI } from "@ai-sdk/openai";
import { OpenTelemetry } from "@ai-sdk/otel";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { generateText, isStepCount, registerTelemetry, streamText, tool } from "ai";
import { z } from "zod";

const server = process.argv[2];
const exporter = new OTLPTraceExporter({ url: `${server}/v1/traces` });
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();
registerTelemetry(new OpenTelemetry());

const openai = createOpenAI({ apiKey: "x", baseURL: `${server}/v1` });
const settings = {
  system: "You are brief.",
  prompt: "What is the weather in Lima?",
  maxRetries: 0,
  runtimeContext: { sessionId: "talk-1", userId: "user-1" },
  telemetry: {
    isEnabled: true,
    functionId: "guide",
    includeRuntimeContext: { sessionId: true, userId: true },
  },
};
const tools = {
  get_weather: tool({
    description: "The weather in a city",
    inputSchema: z.object({ city: z.string() }),
    execute: async () => ({ sky: "sunny" }),
  }),
};
await generateText({ ...settings, model: openai.chat("gpt-4o-mini"), tools, stopWhen: isStepCount(3) });
const streamed = streamText({ ...settings, model: openai.chat("gpt-4o-mini") });
for await (const _ of streamed.textStream);
await generateText({ ...settings, model: openai.chat("broken") }).then(
  () => process.exit(1),
  (error) => console.log(`failed as it should: ${error.name}`),
);
await provider.forceFlush();
await provider.shutdown();
