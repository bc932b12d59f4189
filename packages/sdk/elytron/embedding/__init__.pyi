from elytron.embedding.embedders import FastembedEmbedder as FastembedEmbedder
from elytron.embedding.embedders import LocalEmbedder as LocalEmbedder
from elytron.embedding.embedders import OpenAIEmbedder as OpenAIEmbedder
from elytron.embedding.embedders import UseEmbedder as UseEmbedder
from elytron.embedding.model2vec import Model2VecEmbedder as Model2VecEmbedder
from elytron.embedding.model_files import InstalledModel as InstalledModel
from elytron.embedding.model_files import kept_models as kept_models
from elytron.embedding.model_files import model_folder as model_folder
